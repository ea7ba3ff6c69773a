"""Why an envelope or a key is not accepted: one error for each reason, so that a reader knows what to do."""

from laconic.core.errors import LaconicError


class EnvelopeRefused(LaconicError):
    """An envelope is not accepted; the kind of error says why, the text which file and what to do."""


class NotAnEnvelope(EnvelopeRefused):
    """The file is something else, or its cover cannot be read."""


class Truncated(EnvelopeRefused):
    """The file ends before the envelope does."""


class Tampered(EnvelopeRefused):
    """The signature does not fit the file, or the content does not fit its key: somebody changed it."""


class WronglyAddressed(EnvelopeRefused):
    """The envelope is for somebody else."""


class UnknownKey(EnvelopeRefused):
    """The envelope is signed with a key that its reader does not trust."""


class Expired(EnvelopeRefused):
    """The envelope was to be used by an earlier day."""


class Replayed(EnvelopeRefused):
    """The envelope, or an answer to the same question, was accepted before."""


class OtherPlan(EnvelopeRefused):
    """The envelope belongs to another plan."""


class OtherAlignment(EnvelopeRefused):
    """Its sender has other rows, or has them in another order."""


class OtherVersion(EnvelopeRefused):
    """It was written in another format, or by another version of Laconic."""


class CoverMismatch(EnvelopeRefused):
    """What is inside is not what the cover says."""


class KeyRefused(LaconicError):
    """A key file cannot be used; says which, and what to do."""
