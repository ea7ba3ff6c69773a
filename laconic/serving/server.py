"""Running an application over HTTPS until it is stopped."""

import ssl
from pathlib import Path

from laconic.core.errors import DataError, MissingExtra
from laconic.core.values import Settings
from laconic.simulation import on_threads

_LOCAL = ("127.0.0.1", "localhost", "::1")


class Address(Settings, frozen=True):
    """Where to listen, and by which certificates.

    Attributes:
        host, port: the address.
        certificate, key: PEM files of the server; none for plain HTTP, which only this machine may use.
        client_authority: PEM file of the authority whose client certificates are let in; none asks for no certificate.
        most_at_once: connections served at once; more are told to come back.
    """

    host: str = "127.0.0.1"
    port: int = 8443
    certificate: str | None = None
    key: str | None = None
    client_authority: str | None = None
    most_at_once: int = 200

    def __post_init__(self) -> None:
        """Refuse to be heard in the clear by others, and files that are not there."""
        if self.certificate is None and self.host not in _LOCAL:
            raise ValueError(
                f"{self.host} can be heard by others, so HTTPS is needed: give a certificate and a key; plain HTTP is "
                "for 127.0.0.1 alone, such as behind a proxy on this machine"
            )
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a certificate needs its key, and a key its certificate: give both")
        if self.client_authority is not None and self.certificate is None:
            raise ValueError("client certificates need HTTPS: give a certificate and a key")


def serve(app: object, address: Address) -> None:
    """Answer requests until the process is told to stop; what is under way is finished first."""
    try:
        import uvicorn
    except ImportError as problem:
        raise MissingExtra("uvicorn", "serve") from problem
    for file in (address.certificate, address.key, address.client_authority):
        if file is not None and not Path(file).is_file():
            raise DataError(f"there is no file {file}; check the path")
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        host=address.host,
        port=address.port,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        ssl_ca_certs=address.client_authority,
        ssl_cert_reqs=ssl.CERT_NONE if address.client_authority is None else ssl.CERT_REQUIRED,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=address.most_at_once,
        timeout_graceful_shutdown=10,
        lifespan="on",
    )
    with on_threads(1):
        uvicorn.Server(config).run()
