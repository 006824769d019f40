"""What `make install` lays down is enough for programs in C and C++, also with pkg-config and CMake."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    run(["make", "install", "BUILD=debug", f"PREFIX={folder}"])
    return folder


def run(command: list[str], cwd: Path = ROOT, **more: str) -> str:
    """Runs a command that must succeed; what it printed."""
    environment = os.environ | more
    ran = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def program(folder: Path) -> Path:
    """The C program of the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```c\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert block is not None
    source = folder / "readme.c"
    source.write_text(block.group(1), encoding="utf-8")
    return source


EVERYTHING = {
    "bin/pisession",
    "include/pisession.h",
    "include/pisession.hpp",
    "lib/libpisession.a",
    "lib/libpisession.so",
    "lib/libpisession.so.0",
    "lib/libpisession.so.0.1.0",
    "lib/cmake/pisession/pisessionConfig.cmake",
    "lib/cmake/pisession/pisessionConfigVersion.cmake",
    "lib/pkgconfig/pisession.pc",
}
C_STANDARDS = ["c99", "c11", "c17", "c2x"]
CPP_STANDARDS = ["c++17", "c++20"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
VIEWER = ROOT / "examples" / "c" / "viewer.c"
TWO_AGENTS = ROOT / "examples" / "cpp" / "two_agents.cpp"


def needs(tool: str) -> None:
    """Skips the test, and says so to `tests/run`, where a tool is absent."""
    if shutil.which(tool) is None:
        print(f"\nSKIPPED: the installed library through {tool}, which is not installed", file=sys.__stderr__)
        pytest.skip(f"{tool} is not installed")


def package(prefix: Path, *options: str) -> list[str]:
    """What pkg-config says of the library."""
    needs("pkg-config")
    folder = str(prefix / "lib" / "pkgconfig")
    return run(["pkg-config", *options, "pisession"], PKG_CONFIG_PATH=folder).split()


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_everything_is_installed_and_nothing_else(prefix: Path) -> None:
    assert files_of(prefix) == EVERYTHING


def test_a_staged_installation_speaks_of_the_final_place(tmp_path: Path) -> None:
    run(["make", "install", "BUILD=debug", f"DESTDIR={tmp_path}", "PREFIX=/opt/agents"])
    assert files_of(tmp_path / "opt" / "agents") == EVERYTHING
    assert files_of(tmp_path) == {f"opt/agents/{name}" for name in EVERYTHING}
    package_file = tmp_path / "opt" / "agents" / "lib" / "pkgconfig" / "pisession.pc"
    said = package_file.read_text(encoding="utf-8")
    assert "prefix=/opt/agents\n" in said
    assert str(tmp_path) not in said
    assert "@" not in said


def test_the_package_file_has_the_version_of_the_command_line(prefix: Path) -> None:
    [version] = package(prefix, "--modversion")
    assert version in run([str(prefix / "bin" / "pisession"), "--version"])


@pytest.mark.parametrize("standard", C_STANDARDS)
def test_a_c_program_links_to_the_shared_library(prefix: Path, tmp_path: Path, standard: str) -> None:
    binary = tmp_path / "shared"
    options = [f"-std={standard}", "-Wstrict-prototypes", *WARNINGS, *package(prefix, "--cflags")]
    run(["gcc", *options, str(program(tmp_path)), "-o", str(binary), *package(prefix, "--libs")])
    needed = re.findall(r"NEEDED.*\[(.*pisession[^]]*)\]", run(["readelf", "-d", str(binary)]))
    assert needed == ["libpisession.so.0"]
    assert run([str(binary)], cwd=tmp_path, LD_LIBRARY_PATH=str(prefix / "lib"))


@pytest.mark.parametrize("standard", CPP_STANDARDS)
def test_a_cpp_program_links_to_the_shared_library(prefix: Path, tmp_path: Path, standard: str) -> None:
    binary = tmp_path / "shared"
    options = [f"-std={standard}", "-pthread", "-Wconversion", *WARNINGS, *package(prefix, "--cflags")]
    run(["g++", *options, str(TWO_AGENTS), "-o", str(binary), *package(prefix, "--libs")])
    said = run([str(binary), "memory:"], cwd=tmp_path, LD_LIBRARY_PATH=str(prefix / "lib"))
    assert "turns: 9" in said


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_a_program_links_to_the_static_library(prefix: Path, tmp_path: Path, compiler: str) -> None:
    binary = tmp_path / "static"
    source, arguments = (TWO_AGENTS, ["memory:"]) if compiler == "g++" else (program(tmp_path), [])
    libraries = [
        flag.replace("-lpisession", "-l:libpisession.a") for flag in package(prefix, "--static", "--libs")
    ]
    options = [*WARNINGS, *package(prefix, "--cflags")]
    run([compiler, *options, str(source), "-o", str(binary), *libraries])
    assert "pisession" not in run(["readelf", "-d", str(binary)])
    assert run([str(binary), *arguments], cwd=tmp_path)


def test_the_shared_library_has_its_name_stays_loaded_and_needs_no_path(prefix: Path) -> None:
    dynamic = run(["readelf", "-d", str(prefix / "lib" / "libpisession.so")])
    assert "Library soname: [libpisession.so.0]" in dynamic
    assert re.search(r"FLAGS_1.*NODELETE", dynamic)
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    assert needed
    assert not [name for name in needed if "/" in name]


def test_both_libraries_export_what_is_listed_and_nothing_else(prefix: Path) -> None:
    listed = set((ROOT / "ffi" / "symbols.txt").read_text(encoding="utf-8").split())
    for option, name in (("-D", "libpisession.so"), ("-g", "libpisession.a")):
        said = run(["nm", option, "--defined-only", str(prefix / "lib" / name)])
        assert {line.split()[2] for line in said.splitlines() if len(line.split()) == 3} == listed


PROJECT = """cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
find_package(pisession {version} REQUIRED)
find_package(Threads REQUIRED)
add_compile_options(-Wall -Wextra -Wpedantic -Werror)
foreach(kind pisession static)
    add_executable(viewer_${{kind}} {viewer})
    target_link_libraries(viewer_${{kind}} PRIVATE pisession::${{kind}})
    add_executable(agents_${{kind}} {agents})
    target_link_libraries(agents_${{kind}} PRIVATE pisession::${{kind}} Threads::Threads)
endforeach()
"""


def configure(prefix: Path, folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    """Configures a project that asks for that version."""
    needs("cmake")
    folder.mkdir()
    project = PROJECT.format(version=version, viewer=VIEWER, agents=TWO_AGENTS)
    (folder / "CMakeLists.txt").write_text(project, encoding="utf-8")
    command = ["cmake", "-S", str(folder), "-B", str(folder / "build"), f"-DCMAKE_PREFIX_PATH={prefix}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_a_cmake_project_links_to_both_libraries(prefix: Path, tmp_path: Path) -> None:
    # The folder may be moved.
    moved = tmp_path / "moved"
    shutil.copytree(prefix, moved, symlinks=True)
    folder = tmp_path / "project"
    configured = configure(moved, folder, "0.1")
    assert configured.returncode == 0, configured.stdout + configured.stderr
    run(["cmake", "--build", str(folder / "build")])
    for kind, needs_library in (("pisession", True), ("static", False)):
        agents = folder / "build" / f"agents_{kind}"
        viewer = folder / "build" / f"viewer_{kind}"
        uri = f"sqlite:{tmp_path / kind}"
        assert "turns: 3" in run([str(agents), uri, "1"])
        assert "4 messages" in run([str(viewer), uri])
        needed = re.findall(r"NEEDED.*\[(.*pisession[^]]*)\]", run(["readelf", "-d", str(viewer)]))
        assert needed == (["libpisession.so.0"] if needs_library else [])


@pytest.mark.parametrize("version", ["1", "0.2", "0.1.99"])
def test_a_cmake_project_that_asks_for_another_version_is_told(
    prefix: Path, tmp_path: Path, version: str
) -> None:
    configured = configure(prefix, tmp_path / "project", version)
    assert configured.returncode != 0
    assert "version: 0.1.0" in configured.stderr


def test_the_command_line_is_installed(prefix: Path) -> None:
    assert re.search(r"\d+\.\d+\.\d+", run([str(prefix / "bin" / "pisession"), "--version"]))
