# Two commands do everything: `make demo` shows what this is, `make test` proves that it works.

PYTHON ?= python3
VENV   ?= .venv
PREFIX ?= /usr/local
ROUNDS ?= 20
FILE   ?= examples/data/sample.jsonl
# release or debug: which build is installed.
BUILD  ?= release

version := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
built   := target/$(BUILD)
into    := $(DESTDIR)$(PREFIX)
# The name that programs find the shared library by.
soname  := $(shell sed -n 's/.*-soname,\(libpisession[^"]*\)".*/\1/p' ffi/build.rs)
fill    := -e 's|@prefix@|$(PREFIX)|' -e 's|@version@|$(version)|' -e 's|@soname@|$(soname)|'
# Both builds of the native module see the same interpreter, so that neither redoes the other's work.
export PYO3_PYTHON := $(abspath $(VENV))/bin/python

.PHONY: help demo test interop soak bench wheel bench-python docs install venv develop clean

help:
	@echo "make demo [FILE=path]      build everything, import a session file, work on it from C and Python"
	@echo "make test [ROUNDS=n]       every test and every linter; ends with 'N passed, N failed'"
	@echo "make interop               only the tests with the reference implementation, which npm installs in target/"
	@echo "make soak [ROUNDS=500]     kill -9 a writer many times, every system call fails; nothing acknowledged is lost"
	@echo "make bench                 how fast it is"
	@echo "make wheel                 the Python package as a wheel, in target/wheels"
	@echo "make install [PREFIX=dir]  headers, C library and command line, to /usr/local"
	@echo "make docs                  the book, in site/"
	@echo "make clean                 away with all that was built"

demo: $(VENV)/made
	@FILE="$(FILE)" VENV="$(VENV)" sh examples/demo.sh

test: develop
	@VENV="$(VENV)" ROUNDS="$(ROUNDS)" $(VENV)/bin/python tests/run

interop:
	@sh tests/interop/install.sh
	@cargo test --quiet -p pisession-interop

soak: ROUNDS = 500
soak: develop
	@FAULTS=1000000 KILLS=1000000 IMAGES=20 $(VENV)/bin/python -m pytest -q -W error -p no:cacheprovider tests/faults
	@$(PYTHON) tests/crash/soak.py --rounds $(ROUNDS) --each --durability power
	@$(PYTHON) tests/crash/soak.py --rounds $(ROUNDS) --each --durability process
	@$(PYTHON) tests/crash/forks.py --rounds $(ROUNDS)
	@$(PYTHON) tests/crash/convert.py --rounds 60
	@$(VENV)/bin/python tests/crash/foreign_sqlite.py $(ROUNDS)
	@PISESSION_FUZZ=20:100000 cargo test --quiet --release -p pisession-ffi

bench:
	cargo bench -p pisession --bench sessions
	cargo bench -p pisession-ffi --bench overhead
	$(MAKE) --no-print-directory bench-python

# What Python adds to the core, through a wheel that is installed beside the development build.
bench-python: wheel
	rm -rf target/bench-python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target target/bench-python target/wheels/*.whl
	cargo build --quiet --release -p pisession-python --example core-cost
	PYTHONPATH=target/bench-python $(VENV)/bin/python python/benches/overhead.py target/release/examples/core-cost

# A wheel for CPython 3.11 and newer. Its tag names the oldest glibc it works with, which is this machine's.
wheel: $(VENV)/made
	@rm -rf target/wheels
	@. $(VENV)/bin/activate && maturin build $(if $(filter release,$(BUILD)),--release) --quiet --manifest-path python/Cargo.toml --out target/wheels
	@ls target/wheels/*.whl

docs: $(VENV)/made
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

install:
	cargo build --quiet $(if $(filter release,$(BUILD)),--release) -p pisession-ffi -p pisession-cli
	install -d $(into)/bin $(into)/include $(into)/lib/pkgconfig $(into)/lib/cmake/pisession
	install -m 755 $(built)/pisession $(into)/bin/
	install -m 644 include/*.h include/*.hpp $(into)/include/
	install -m 755 $(built)/libpisession.so $(into)/lib/libpisession.so.$(version)
	ln -sf libpisession.so.$(version) $(into)/lib/$(soname)
	ln -sf $(soname) $(into)/lib/libpisession.so
	sh ffi/static-library.sh $(built)/libpisession.a ffi/symbols.txt $(into)/lib/libpisession.a
	sed $(fill) include/pisession.pc.in > $(into)/lib/pkgconfig/pisession.pc
	for name in pisessionConfig pisessionConfigVersion; do \
		sed $(fill) include/$$name.cmake.in > $(into)/lib/cmake/pisession/$$name.cmake || exit 1; \
	done

# The Python environment: pinned tools, nothing outside the folder.
venv: $(VENV)/made

$(VENV)/made: tests/requirements.txt docs/requirements.txt
	@echo "making the Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt -r docs/requirements.txt
	@touch $@

# The libraries and programs that the tests use, as debug builds; a build that fails shows in the tests.
develop: $(VENV)/made
	@echo "building the library, the command line and the Python package"
	-@cargo build --quiet --workspace --all-targets
	-@. $(VENV)/bin/activate && maturin develop --quiet --manifest-path python/Cargo.toml

clean:
	cargo clean
	rm -rf $(VENV) demo site
