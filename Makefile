# make test is what a contributor needs: it installs the packages, builds and runs every test.

BUILD := build
JOBS := $(shell nproc)

# Debian 12's own packages; nothing is fetched from anywhere else. docs/dependencies.md says what each is for.
PACKAGES := cmake ninja-build clang-19 lld-19 llvm-19-dev libclang-19-dev liblld-19-dev \
  libfmt-dev libspdlog-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libxxhash-dev \
  libboost-context-dev libsqlite3-dev libzstd-dev zlib1g-dev libncurses-dev libgtest-dev libgmock-dev xz-utils

SUDO := $(shell test "$$(id -u)" = 0 || echo sudo)
APT_INSTALL := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $(PACKAGES)

FUZZ_BUILD := build-fuzz
FUZZ_SECONDS := 60

.PHONY: deps build test fuzz mutation demo bundle clean

# The package lists are refreshed only when the ones at hand cannot provide a package.
deps:
	@if dpkg-query -W -f='$${Status}\n' $(PACKAGES) 2>/dev/null | grep -c '^install ok installed$$' \
	    | grep -qx $(words $(PACKAGES)); then \
	  echo "All $(words $(PACKAGES)) packages are installed."; \
	else \
	  $(APT_INSTALL) || { $(SUDO) apt-get update -q && $(APT_INSTALL); }; \
	fi

build: deps
	cmake -S . -B $(BUILD) -G Ninja -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19
	cmake --build $(BUILD) --parallel $(JOBS) --target causeway_program

test: build
	cmake --build $(BUILD) --parallel $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)

# Every parser under libFuzzer, each for FUZZ_SECONDS. Needs libclang-rt-19-dev.
fuzz: deps
	cmake -S . -B $(FUZZ_BUILD) -G Ninja -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
	  -DCAUSEWAY_FUZZ=ON -DCAUSEWAY_TESTS=OFF
	cmake --build $(FUZZ_BUILD) --parallel $(JOBS) --target causeway_fuzz
	bash tools/fuzz.sh $(FUZZ_BUILD)/causeway_fuzz $(FUZZ_SECONDS)

# Plants every fault of tests/mutation/planted_fault_list.cpp and says which test catches it; first, that these tests
# pass without one.
mutation: build
	cmake --build $(BUILD) --parallel $(JOBS) --target mutation_tests
	$(BUILD)/tests/mutation_tests

demo: build
	bash tools/demo.sh

bundle: build
	bash tools/bundle.sh $(BUILD)

clean:
	rm -rf $(BUILD)
