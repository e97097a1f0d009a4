# make test is what a contributor needs: it installs the packages, builds and runs every test.

BUILD := build
JOBS := $(shell nproc)

# Debian 12's own packages; nothing is fetched from anywhere else. docs/dependencies.md says what each is for.
PACKAGES := cmake ninja-build clang-22 lld-22 llvm-22-dev libclang-22-dev liblld-22-dev \
  libfmt-dev libspdlog-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libxxhash-dev \
  libboost-dev libboost-context-dev libmbedtls-dev libsqlite3-dev libpcre2-dev libutf8proc-dev \
  libzstd-dev zlib1g-dev libncurses-dev libgtest-dev libgmock-dev xz-utils

# What tests would be skipped without: two MPIs side by side, a browser, libraries to compare GEMMs with. Where they
# cannot be had, the tests that need them are skipped, which `make test` lists at its end.
TEST_PACKAGES := openmpi-bin mpich chromium libopenblas0-pthread libdnnl2

SUDO := $(shell test "$$(id -u)" = 0 || echo sudo)
APT_INSTALL := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends

FUZZ_SECONDS := 60

# Installs what is missing of $(1). The package lists are refreshed only when the ones at hand cannot provide a package.
define install
	@if dpkg-query -W -f='$${Status}\n' $(1) 2>/dev/null | grep -c '^install ok installed$$' \
	    | grep -qx $(words $(1)); then \
	  echo "All $(words $(1)) packages are installed."; \
	else \
	  $(APT_INSTALL) $(1) || { $(SUDO) apt-get update -q && $(APT_INSTALL) $(1); }; \
	fi
endef

# For the targets of a nightly run: formatting, static checks, sanitizers, coverage.
CHECK_PACKAGES := clang-format-22 clang-tidy-22 libclang-rt-22-dev

.PHONY: deps build-deps test-deps check-deps build test demo bundle clean
.PHONY: format format-check tidy sanitize sanitize-thread coverage fuzz mutation

deps: build-deps test-deps

build-deps:
	$(call install,$(PACKAGES))

test-deps:
	$(call install,$(TEST_PACKAGES)) || for package in $(TEST_PACKAGES); do \
	  $(APT_INSTALL) $$package || echo "$$package could not be installed: tests that need it will be skipped."; \
	done

check-deps:
	$(call install,$(CHECK_PACKAGES))

build: build-deps
	cmake -S . -B $(BUILD) --preset clang
	cmake --build $(BUILD) --parallel $(JOBS) --target causeway_program

test: build test-deps
	cmake --build $(BUILD) --parallel $(JOBS)
	bash tools/run_tests.sh $(BUILD) $(JOBS)

# Every parser under libFuzzer, each for FUZZ_SECONDS.
fuzz: build check-deps
	cmake --build $(BUILD) --parallel $(JOBS) --target causeway_fuzz
	bash tools/fuzz.sh $(BUILD)/fuzz/causeway_fuzz $(FUZZ_SECONDS)

# Plants every fault of tests/mutation/planted_fault_list.cpp and says which test catches it; first, that these tests
# pass without one.
mutation: build
	cmake --build $(BUILD) --parallel $(JOBS) --target mutation_tests
	$(BUILD)/tests/mutation_tests

demo: build
	bash tools/demo.sh

bundle: build
	bash tools/bundle.sh $(BUILD)

SOURCES = git ls-files 'causeway/*.h' 'causeway/*.cpp' 'tests/*.h' 'tests/*.cpp' 'examples/*.cpp'

format: check-deps
	$(SOURCES) | xargs clang-format-22 -i

format-check: check-deps
	$(SOURCES) | xargs clang-format-22 --dry-run -Werror

tidy: build-deps check-deps
	bash tools/tidy.sh $(JOBS)

sanitize: build-deps test-deps check-deps
	bash tools/sanitize.sh address $(JOBS)

sanitize-thread: build-deps test-deps check-deps
	bash tools/sanitize.sh thread $(JOBS)

coverage: build-deps test-deps check-deps
	bash tools/coverage.sh $(JOBS)

clean:
	rm -rf $(BUILD) build-address build-thread build-coverage
