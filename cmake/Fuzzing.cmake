# causeway_fuzz: libFuzzer over the targets of tests/fuzz/targets.cpp, with the address and undefined-behaviour
# sanitizers. It holds the parsers and what they need, compiled for it alone; `make fuzz` builds and runs it.

file(GLOB CAUSEWAY_FUZZ_SOURCES CONFIGURE_DEPENDS
  causeway/base/*.cpp
  causeway/data/*.cpp
  causeway/graph/*.cpp
  causeway/bench/results/*.cpp)
# What reads nothing from outside.
list(FILTER CAUSEWAY_FUZZ_SOURCES EXCLUDE REGEX
  "/(prepare|batch_loader|inspect|sample_order|interpreter.*|random_graph|rewrite|compare|inference)\\.cpp$")
list(APPEND CAUSEWAY_FUZZ_SOURCES
  causeway/bench/report/cost_table.cpp
  causeway/bench/report/shipped_text.cpp
  causeway/bench/report/sourced_yaml.cpp
  causeway/bench/result.cpp
  causeway/bench/statistics.cpp
  causeway/model/config.cpp
  causeway/formats/box.cpp
  causeway/train/checkpoint/checkpoint_manifest.cpp
  causeway/train/recipe/recipe.cpp
  causeway/formats/safetensors.cpp
  causeway/train/recipe/schedule.cpp)

add_executable(causeway_fuzz EXCLUDE_FROM_ALL tests/fuzz/fuzzer.cpp tests/fuzz/targets.cpp ${CAUSEWAY_FUZZ_SOURCES}
  ${CMAKE_BINARY_DIR}/generated/shipped_benchmark_files.cpp)
target_include_directories(causeway_fuzz PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_features(causeway_fuzz PRIVATE cxx_std_20)
set(sanitizers -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined)
target_compile_options(causeway_fuzz PRIVATE ${sanitizers} -O1 -gline-tables-only)
target_link_options(causeway_fuzz PRIVATE ${sanitizers})
causeway_link_static_dependencies(causeway_fuzz)
