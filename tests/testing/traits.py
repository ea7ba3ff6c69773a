"""What is messy about a federation, to check that a set of them has all of it."""

EVERY = frozenset(
    {
        "vertical", "horizontal", "negative numbers", "huge numbers", "tiny numbers", "constant column",
        "mostly missing column", "integer-like numbers", "dates iso", "dates dotted", "dates day_first",
        "dates month_first", "booleans in words", "unicode", "thousands separator", "decimal comma", "currency", "bom",
        "delimiter ,", "delimiter ;", "delimiter tab", "delimiter |", "skewed classes", "labels as text",
        "labels as numbers", "a quantity to predict", "level at one party only", "level in one row only",
        "shuffled ids", "same row twice", "other row of the same id", "partly shared ids", "leading zeros",
        "20 rows", "2000 rows", "one column", "40 columns", "csv", "parquet", "frames",
    }
)  # fmt: skip
"""All that a set of messy federations should have."""

_COLUMN_TRAITS = {
    "negative": "negative numbers",
    "huge": "huge numbers",
    "tiny": "tiny numbers",
    "constant": "constant column",
    "mostly missing": "mostly missing column",
    "integer": "integer-like numbers",
    "boolean": "booleans in words",
    "rare level": "level in one row only",
}


def traits_of(federation):
    found = {federation.kind, "shuffled ids"} if federation.id else {str(federation.kind)}
    kinds = {"quantity": "a quantity to predict", "numbers": "labels as numbers", "decimals": "labels as numbers"}
    found.add(kinds.get(federation.label_kind, "labels as text"))
    if federation.rows in (20, 2000):
        found.add(f"{federation.rows} rows")
    if federation.skew >= 0.9 and federation.classes:
        found.add("skewed classes")
    if federation.id and federation.id_form.startswith(("{:0", "00")):
        found.add("leading zeros")
    if federation.framed:
        found.add("frames")
    for party in federation.parties:
        found |= set(_of_party(federation, party))
    return frozenset(found)


def _of_party(federation, party):
    yield from (_COLUMN_TRAITS[column.trait] for column in party.columns if column.trait in _COLUMN_TRAITS)
    if len(party.columns) in (1, 40):
        yield "one column" if len(party.columns) == 1 else "40 columns"
    if federation.kind == "horizontal" and any(column.trait == "level" for column in party.columns):
        yield "level at one party only"
    if party.duplicates != "none" and federation.id:
        yield "same row twice" if party.duplicates == "same" else "other row of the same id"
    if party.keeps < 1 and federation.id:
        yield "partly shared ids"
    if not all(text.isascii() for column in party.columns for text in (column.name, *column.words)):
        yield "unicode"
    if not federation.framed:
        yield from _of_file(party)


def _of_file(party):
    style, traits = party.style, {column.trait for column in party.columns}
    yield style.format.partition(".")[0]
    if style.format == "parquet" and style.typed:
        return
    if "date" in traits:
        yield f"dates {style.dates}"
    if "money" in traits:
        yield "currency"
        if style.numbers.thousands:
            yield "thousands separator"
        if style.numbers.decimal == ",":
            yield "decimal comma"
    if style.format != "parquet":
        yield f"delimiter {'tab' if style.delimiter == chr(9) else style.delimiter}"
        if style.bom:
            yield "bom"
