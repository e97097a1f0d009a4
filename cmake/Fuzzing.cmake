# causeway_fuzz: libFuzzer over the targets of tests/fuzz/targets.cpp. The parsers are compiled once more for it, with the
# address and undefined-behaviour sanitizers and libFuzzer's counting of edges; what they stand on comes from the library
# as it is. `make fuzz` builds and runs it.

set(parsers
  causeway/base/enclosed_path.cpp
  causeway/base/file.cpp
  causeway/base/json_document.cpp
  causeway/base/positioned_file.cpp
  causeway/base/printable.cpp
  causeway/base/utf8.cpp
  causeway/base/yaml_document.cpp
  causeway/bench/report/cost_table.cpp
  causeway/bench/report/sourced_yaml.cpp
  causeway/bench/result.cpp
  causeway/bench/results/results_file.cpp
  causeway/communicator/control_message.cpp
  causeway/data/input_stream.cpp
  causeway/data/json_line.cpp
  causeway/data/split_name.cpp
  causeway/data/text_source.cpp
  causeway/data/token_dataset.cpp
  causeway/data/utf8_checker.cpp
  causeway/evaluation/python_random.cpp
  causeway/evaluation/python_text.cpp
  causeway/evaluation/task_file.cpp
  causeway/evaluation/task_format.cpp
  causeway/evaluation/task_requests.cpp
  causeway/formats/box.cpp
  causeway/formats/dataset_manifest.cpp
  causeway/formats/file_format.cpp
  causeway/formats/headerless_tokens.cpp
  causeway/formats/hugging_face_config.cpp
  causeway/formats/megatron_index.cpp
  causeway/formats/safetensors.cpp
  causeway/formats/token_shard.cpp
  causeway/formats/tokenizer/added_tokens.cpp
  causeway/formats/tokenizer/bpe_model.cpp
  causeway/formats/tokenizer/byte_characters.cpp
  causeway/formats/tokenizer/byte_fallback.cpp
  causeway/formats/tokenizer/byte_level_json.cpp
  causeway/formats/tokenizer/byte_pair_merges.cpp
  causeway/formats/tokenizer/byte_trie.cpp
  causeway/formats/tokenizer/character_set.cpp
  causeway/formats/tokenizer/encoding_budget.cpp
  causeway/formats/tokenizer/expression_text.cpp
  causeway/formats/tokenizer/expression_translation.cpp
  causeway/formats/tokenizer/gpt2_scanner.cpp
  causeway/formats/tokenizer/gpt2_tokenizer.cpp
  causeway/formats/tokenizer/json_tokenizer.cpp
  causeway/formats/tokenizer/pattern.cpp
  causeway/formats/tokenizer/post_processor.cpp
  causeway/formats/tokenizer/pre_tokenizer.cpp
  causeway/formats/tokenizer/regular_expression.cpp
  causeway/formats/tokenizer/text_normalizer.cpp
  causeway/formats/tokenizer/token_decoder.cpp
  causeway/formats/tokenizer/tokenizer.cpp
  causeway/formats/tokenizer/tokenizer_part.cpp
  causeway/formats/tokenizer/tokenizer_settings.cpp
  causeway/formats/tokenizer/unicode_classes.cpp
  causeway/formats/tokenizer/unicode_text.cpp
  causeway/formats/tokenizer/unigram_model.cpp
  causeway/graph/attributes.cpp
  causeway/graph/dim.cpp
  causeway/device/gpu_architecture.cpp
  causeway/graph/dtype.cpp
  causeway/graph/graph.cpp
  causeway/graph/parser.cpp
  causeway/graph/printer.cpp
  causeway/graph/text_scanner.cpp
  causeway/graph/type_inference.cpp
  causeway/graph/type_inference_shape.cpp
  causeway/graph/type_inference_templates.cpp
  causeway/model/base_entries.cpp
  causeway/model/config.cpp
  causeway/model/family.cpp
  causeway/model/gpt2.cpp
  causeway/model/llama.cpp
  causeway/model/mistral.cpp
  causeway/model/mpt.cpp
  causeway/model/qwen2.cpp
  causeway/plan/machines.cpp
  causeway/plan/published_points.cpp
  causeway/plan/transformer_work.cpp
  causeway/train/checkpoint/checkpoint_manifest.cpp
  causeway/train/log/append_log.cpp
  causeway/train/log/metrics_log.cpp
  causeway/train/recipe/recipe.cpp
  causeway/train/recipe/schedule.cpp)

add_executable(causeway_fuzz EXCLUDE_FROM_ALL tests/fuzz/fuzzer.cpp tests/fuzz/targets.cpp ${parsers})
# Tools that read compile_commands.json would go through these files twice.
set_target_properties(causeway_fuzz PROPERTIES EXPORT_COMPILE_COMMANDS OFF UNITY_BUILD OFF
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
set(sanitizers -fsanitize=fuzzer,address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=undefined)
target_compile_options(causeway_fuzz PRIVATE ${sanitizers} -O1 -gline-tables-only)
target_link_options(causeway_fuzz PRIVATE ${sanitizers})
target_link_libraries(causeway_fuzz PRIVATE causeway)
