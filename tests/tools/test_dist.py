"""What is built for the package index holds the package, all of it and nothing else, under our own name."""

import zipfile

import pytest

from tools.dist import build, faults_of_sdist, faults_of_wheel, is_compiled


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"), compiler=False)


@pytest.mark.slow
def test_both_hold_the_package_and_a_compiler_is_not_needed(built):
    sdist, wheel = built
    assert faults_of_sdist(sdist) == []
    assert faults_of_wheel(wheel) == []
    assert not is_compiled(wheel)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda name, text: (name, None if name.endswith("page/style.css") else text),
            "lacks laconic/report/page/style",
        ),
        (lambda name, text: (name.replace("laconic/py.typed", "tests/py.typed"), text), "holds tests/py.typed"),
        (lambda name, text: (name, text.replace(b"\nName: laconic-fl", b"\nName: laconic")), "Name is laconic,"),
        (lambda name, text: (name, text.replace(b"laconic-fl[plots]", b"laconic[plots]")), "another project"),
        (lambda name, text: (name, text.replace(b"Python :: 3.13", b"Python :: 3.14")), "names Python"),
    ],
)
def test_a_wheel_with_a_fault_is_found(built, change, fault, tmp_path):
    broken = tmp_path / built[1].name
    with zipfile.ZipFile(built[1]) as old, zipfile.ZipFile(broken, "w") as new:
        for one in old.namelist():
            name, text = change(one, old.read(one))
            if text is not None:
                new.writestr(name, text)
    assert any(fault in found for found in faults_of_wheel(broken))
