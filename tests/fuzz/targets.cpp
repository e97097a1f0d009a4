#include "tests/fuzz/targets.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "causeway/base/enclosed_path.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/base/json_document.h"
#include "causeway/bench/report/cost_table.h"
#include "causeway/bench/results/results_file.h"
#include "causeway/communicator/control_message.h"
#include "causeway/data/chat_record.h"
#include "causeway/data/input_stream.h"
#include "causeway/data/mds_reader.h"
#include "causeway/data/preference_record.h"
#include "causeway/data/prompt_record.h"
#include "causeway/data/text_source.h"
#include "causeway/data/token_dataset.h"
#include "causeway/evaluation/task_requests.h"
#include "causeway/formats/chat_template/chat_targets.h"
#include "causeway/formats/chat_template/chat_template.h"
#include "causeway/formats/dataset_manifest.h"
#include "causeway/formats/mds_index.h"
#include "causeway/formats/safetensors.h"
#include "causeway/formats/tokenizer/byte_level_json.h"
#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "causeway/formats/tokenizer/unicode_text.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/model/config.h"
#include "causeway/model/peft_adapter.h"
#include "causeway/plan/machines.h"
#include "causeway/plan/published_points.h"
#include "causeway/train/checkpoint/checkpoint_manifest.h"
#include "causeway/train/grpo/rollout.h"
#include "causeway/train/log/metrics_log.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::fuzz {

using namespace train;
using namespace bench;

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

// What the program wrote itself it can read.
template <class Work>
auto again(Work work) {
  try {
    return work();
  } catch (const Error& error) {
    throw std::logic_error(std::string("what was written cannot be read: ") + error.what());
  }
}

// Inputs of several texts have a zero byte between them.
std::vector<std::string> split(std::string_view input, size_t parts) {
  std::vector<std::string> texts;
  while (texts.size() + 1 < parts) {
    const size_t end = std::min(input.find('\0'), input.size());
    texts.emplace_back(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  texts.emplace_back(input);
  return texts;
}

// A directory of this process, gone when it ends.
class ProcessDirectory {
 public:
  ProcessDirectory() : path_(std::filesystem::temp_directory_path() / ("causeway-fuzz-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ProcessDirectory(const ProcessDirectory&) = delete;
  ProcessDirectory& operator=(const ProcessDirectory&) = delete;
  ~ProcessDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

const std::filesystem::path& own_directory() {
  static const ProcessDirectory directory;
  return directory.path();
}

// A file with the input's bytes, the same one each time.
std::filesystem::path file_of(std::string_view input, const std::string& name) {
  const std::filesystem::path path = own_directory() / name;
  std::ofstream(path, std::ios::binary).write(input.data(), static_cast<std::streamsize>(input.size()));
  return path;
}

// YAML, then overrides, one a line.
bool recipe(std::string_view input) {
  const std::vector<std::string> texts = split(input, 2);
  std::vector<std::string> overrides;
  for (std::string_view rest = texts[1]; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    overrides.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const Recipe read = parse_recipe(texts[0], "fuzz.yaml", overrides);
  const std::string written = recipe_text(read);
  require(recipe_text(again([&] { return parse_saved_recipe(written, "again.yaml"); })) == written,
          "a recipe changed on its way");
  require(parameter_count(read.model) > 0, "a model without parameters");
  return true;
}

bool cost_table(std::string_view input) {
  parse_cost_table(std::string(input), "fuzz.yaml");
  return true;
}

bool machines(std::string_view input) {
  for (const plan::Machine& machine : plan::parse_machines(std::string(input), "fuzz.yaml"))
    require(machine.devices_per_node >= 1 && machine.memory_bytes > 0, "a machine without devices or memory");
  return true;
}

bool training_points(std::string_view input) {
  for (const plan::PublishedPoint& point : plan::parse_published_points(std::string(input), "fuzz.yaml"))
    require(point.seconds >= 0 && point.step.devices >= 1, "a step without time or devices");
  return true;
}

// A line that came over the network.
bool control_message(std::string_view input) {
  using communicator::parse_control_message, communicator::print_control_message;
  const communicator::ControlMessage message = parse_control_message(input);
  require(again([&] { return parse_control_message(print_control_message(message)); }) == message,
          "a message changed on its way");
  return true;
}

bool safetensors(std::string_view input) {
  // On the heap, to the byte, so that a read beyond the end is seen.
  const std::vector<char> bytes(input.begin(), input.end());
  const SafetensorsHeader header = parse_safetensors_header(std::as_bytes(std::span(bytes)), "fuzz.safetensors");
  for (const auto& [name, tensor] : header.tensors)
    require(tensor.begin <= tensor.end && tensor.end <= bytes.size() - header.data_begin, "a tensor outside its file");
  return true;
}

bool read_checkpoint_manifest(const std::string& body) {
  const std::string text = body + ",\n \"hash\": \"" + hash_text(body).hex() + "\"\n}\n";
  const CheckpointManifest manifest = parse_manifest(text, std::filesystem::path("manifest.json"));
  const std::string written = format_manifest(manifest);
  require(
      format_manifest(again([&] { return parse_manifest(written, std::filesystem::path("again.json")); })) == written,
      "a manifest changed on its way");
  return true;
}

// The manifest without its hash, which is put behind it. A changed model gets its fingerprint.
bool checkpoint_manifest(std::string_view input) {
  try {
    return read_checkpoint_manifest(std::string(input));
  } catch (const Error&) {
    nlohmann::json root = parse_json(std::string(input) + "\n}", {});
    if (!root.is_object() || !root.contains("model") || !root["model"].is_object()) return false;
    root["model"]["fingerprint"] = model_fingerprint(root["model"].value("config", nlohmann::json()));
    const std::string whole = root.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
    return read_checkpoint_manifest(whole.substr(0, whole.size() - 2));
  }
}

bool dataset_manifest(std::string_view input) {
  const std::string name = "dataset.json";
  const std::string written = print_manifest(parse_manifest(input, name));
  require(print_manifest(again([&] { return parse_manifest(written, name); })) == written,
          "a dataset's description changed on its way");
  return true;
}

// The index of an MDS dataset, and its shard.
bool mds(std::string_view input) {
  const std::vector<std::string> texts = split(input, 2);
  const MdsShard shard = parse_mds_index(texts[0], "index.json").shards.front();
  // The index says how large the shard is, which is found out before it is read.
  if (shard.raw.bytes != texts[1].size()) return false;
  const std::filesystem::path file = file_of(texts[1], "shard.mds");
  const std::string& column = shard.columns.front().name;
  MdsReader reader(file, shard, column);
  std::vector<int32_t> ids;
  while (reader.holds_tokens() ? reader.next_tokens(ids) : reader.next_text().has_value()) {
  }
  if (ids.empty()) return true;
  const TokenShard in_place = TokenShard::open_mds(PositionedFile::open(file), file, shard, column);
  std::vector<int32_t> same(in_place.token_count());
  in_place.read(0, same);
  require(same == ids, "other tokens in place than in order");
  return true;
}

bool model_config(std::string_view input) {
  const ModelConfig config = from_hugging_face(parse_json(input, {.where = "config.json"}));
  require(parameter_count(config) > 0, "a model without parameters");
  require(again([&] { return from_hugging_face(to_hugging_face(config)); }) == config,
          "a configuration changed on its way");
  return true;
}

bool adapter_config(std::string_view input) {
  const AdapterConfig adapter = from_peft(parse_json(input, {.where = "adapter_config.json"}));
  require(adapter.is_used() && adapter.scale() > 0, "an adapter that does nothing");
  require(again([&] { return from_peft(to_peft(adapter)); }) == adapter, "a configuration changed on its way");
  return true;
}

// Vocabulary, merges, and a text to encode.
bool tokenizer(std::string_view input) {
  const std::vector<std::string> texts = split(input, 3);
  const Gpt2Tokenizer tokenizer = Gpt2Tokenizer::parse(texts[0], texts[1], "encoder.json", "vocab.bpe");
  require(tokenizer.decode(tokenizer.encode(texts[2])) == texts[2], "a text changed on its way through tokens");
  return true;
}

// The same ids with spans, which lie in the text and do not go back.
void require_spans(const Tokenizer& tokenizer, std::string_view text, bool special) {
  std::vector<int32_t> ids;
  std::vector<formats::TextSpan> spans;
  tokenizer.encode_spans_to(text, special, ids, spans);
  require(ids == tokenizer.encode(text, {.read_special_tokens = special}), "other ids with spans");
  require(spans.size() == ids.size(), "a token without a span");
  size_t begin = 0;
  for (const formats::TextSpan& span : spans) {
    require(begin <= span.begin && span.begin <= span.end && span.end <= text.size(), "a span outside its place");
    begin = span.begin;
  }
}

// A tokenizer.json, and a text to encode.
bool tokenizer_json(std::string_view input) {
  const std::vector<std::string> texts = split(input, 2);
  const JsonTokenizer tokenizer = JsonTokenizer::parse(texts[0]);
  const std::string text = texts[1].substr(0, 1000);
  for (const bool special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, {special, special});
    for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocabulary_size(), "an id outside the vocabulary");
    tokenizer.decode(ids);
    require_spans(tokenizer, text, special);
  }
  const size_t cut = tokenizer.cut_position(text, text.size() / 2);
  std::vector<int32_t> both = tokenizer.encode(text.substr(0, cut));
  tokenizer.encode_to(text.substr(cut), both);
  require(both == tokenizer.encode(text), "a cut changed the tokens");
  return true;
}

// What stands beside a tokenizer.json, here that of bytes, and a text to encode.
bool tokenizer_settings(std::string_view input) {
  const std::vector<std::string> texts = split(input, 4);
  const TokenizerSettingsFiles files = {
      {"tokenizer_config.json", texts[0]}, {"special_tokens_map.json", texts[1]}, {"added_tokens.json", texts[2]}};
  const JsonTokenizer tokenizer = JsonTokenizer::parse(byte_tokenizer_json(), files);
  const std::string text = texts[3].substr(0, 1000);
  for (const bool special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, {special, special});
    for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocabulary_size(), "an id outside the vocabulary");
    tokenizer.decode(ids);
    const size_t cut = tokenizer.cut_position(text, text.size() / 2, special);
    std::vector<int32_t> both = tokenizer.encode(text.substr(0, cut), {.read_special_tokens = special});
    tokenizer.encode_to(text.substr(cut), special, both);
    require(both == tokenizer.encode(text, {.read_special_tokens = special}), "a cut changed the tokens");
  }
  return true;
}

// A preference pair as a line of JSON.
bool preference_record(std::string_view input) {
  nlohmann::ordered_json record = data::parse_json_record({input, 1}, "input.jsonl").object;
  if (!data::is_preference_record(record)) return false;
  const data::PreferenceRecord pair = data::read_preference_record(std::move(record), "");
  require(pair.chosen["prompt"] == pair.rejected["prompt"], "two prompts");
  require(pair.chosen["completion"] != pair.rejected["completion"], "the same completions");
  return true;
}

// A conversation as a line of JSON.
bool chat_record(std::string_view input) {
  const data::ChatRecord record = data::read_chat_record(data::parse_json_record({input, 1}, "input.jsonl").object, "");
  require(!record.is_rendered() || record.weights.size() == record.input.messages.size(),
          "a message of which nothing says what it weighs");
  return true;
}

// A prompt that is to be answered, likewise.
bool prompt_record(std::string_view input) {
  const data::ChatRecord record =
      data::read_prompt_record(data::parse_json_record({input, 1}, "input.jsonl").object, "");
  require(record.is_rendered() ? record.input.add_generation_prompt : !record.prompt->empty(),
          "nothing to be answered");
  return true;
}

// Where sampling is, in a checkpoint.
bool rollout_state(std::string_view input) {
  const std::string text = train::print_rollout_state(train::parse_rollout_state(input, "grpo.json"));
  require(train::print_rollout_state(train::parse_rollout_state(text, "grpo.json")) == text, "another state");
  return true;
}

bool json_lines(std::string_view input) {
  TextReader reader({file_of(input, "input.jsonl"), TextFormat::kJsonLines}, {});
  bool any = false;
  while (const std::optional<TextBlock> block = reader.next()) {
    for (const JsonLine& line : block->lines()) {
      parse_json_line(line, "text", reader.stream().name());
      any = true;
    }
  }
  return any;
}

// The samples of a list that is taken are the elements that the parser of all of it finds, however it comes.
bool json_list(std::string_view input) {
  const auto samples_of = [&](size_t at_once) {
    data::JsonListCutter cutter("input.json", size_t{1} << 20);
    std::string_view rest = input;
    std::string buffer;
    const auto more = [&] {
      const size_t count = std::min(at_once, rest.size());
      buffer += rest.substr(0, count);
      rest.remove_prefix(count);
      return count > 0;
    };
    std::vector<std::string> samples;
    while (true) {
      std::string text;
      std::vector<data::ListedSample> found;
      cutter.cut(buffer, more, 64, text, found);
      if (found.empty()) return samples;
      for (const data::ListedSample& one : found) samples.push_back(text.substr(one.begin, one.end - one.begin));
    }
  };
  const std::vector<std::string> samples = samples_of(input.size() + 1);
  require(samples_of(3) == samples, "samples depend on the pieces that a list is read in");
  const nlohmann::json whole = nlohmann::json::parse(input, nullptr, false);
  if (whole.is_discarded()) return !samples.empty();
  require(whole.is_array() && whole.size() == samples.size(), "a list has other elements");
  for (size_t i = 0; i < samples.size(); ++i) {
    // Equality descends by recursion.
    if (std::ranges::count(samples[i], '[') + std::ranges::count(samples[i], '{') > 1000) continue;
    require(nlohmann::json::parse(samples[i], nullptr, false) == whole[i], "a sample is not the list's element");
  }
  return true;
}

// What is decompressed, in bounds of time and memory, however it is read.
bool compressed(std::string_view input) {
  constexpr size_t kMost = size_t{1} << 20;
  const auto read = [&](size_t at_once) {
    data::InputStream stream(file_of(input, "input"));
    std::string text(kMost, '\0');
    size_t size = 0;
    while (size < kMost) {
      const size_t wanted = std::min(at_once, kMost - size);
      const size_t count = stream.read(std::span(text).subspan(size, wanted));
      size += count;
      if (count < wanted) break;
    }
    text.resize(size);
    return std::pair{text, stream.compression()};
  };
  const auto whole = read(kMost);
  require(read(777) == whole, "a text depends on the pieces it is read in");
  return whole.second != formats::Compression::kNone;
}

// What is read is the same after it was written in quotes.
bool csv(std::string_view input) {
  const auto texts = [](std::string_view content) {
    TextReader reader({file_of(content, "input.csv"), TextFormat::kCsv}, {});
    std::vector<std::string> texts;
    while (const std::optional<TextBlock> block = reader.next()) {
      size_t begin = 0;
      for (const data::BlockDocument& document : block->documents) {
        texts.push_back(block->text.substr(begin, document.end - begin));
        begin = document.end;
      }
    }
    return texts;
  };
  const std::vector<std::string> read = texts(input);
  std::string written = "text\n";
  for (const std::string& text : read) {
    written += '"';
    for (const char c : text) written += c == '"' ? "\"\"" : std::string(1, c);
    written += "\"\n";
  }
  require(again([&] { return texts(written); }) == read, "texts changed on their way");
  return !read.empty();
}

// Causeway's own shards carry a hash of their description, which is put right.
std::string with_right_hash(std::string_view input) {
  constexpr size_t kHashed = 80, kHeader = 128, kTokenBytesAt = 12, kTokensAt = 16;
  std::string bytes(input);
  if (!bytes.starts_with("CAUSETOK") || bytes.size() < kHeader) return bytes;
  uint32_t token_bytes = 0;
  uint64_t tokens = 0;
  std::memcpy(&token_bytes, bytes.data() + kTokenBytesAt, sizeof token_bytes);
  std::memcpy(&tokens, bytes.data() + kTokensAt, sizeof tokens);
  if (tokens > bytes.size() || token_bytes > 4) return bytes;
  const size_t rest = kHeader + (tokens * token_bytes + 7) / 8 * 8;
  if (rest > bytes.size()) return bytes;
  const Hash128 hash = hash_text(bytes.substr(0, kHashed) + bytes.substr(rest));
  const uint64_t halves[] = {hash.high, hash.low};
  std::memcpy(bytes.data() + kHashed, halves, sizeof halves);
  return bytes;
}

bool token_file(std::string_view input) {
  const TokenDataset dataset = TokenDataset::open(file_of(with_right_hash(input), "input.bin"));
  std::vector<int32_t> ids(std::min<uint64_t>(dataset.token_count(), 4096)), documents(ids.size());
  dataset.read(dataset.token_count() - ids.size(), ids);
  dataset.read_document_numbers(0, documents);
  for (size_t i = 1; i < documents.size(); ++i)
    require(documents[i] == documents[i - 1] || documents[i] == documents[i - 1] + 1, "documents out of order");
  return true;
}

bool results(std::string_view input) {
  const std::string written = results_json(parse_results(input, "fuzz.json"));
  require(results_json(again([&] { return parse_results(written, "again.json"); })) == written,
          "results changed on their way");
  return true;
}

// A task's name, then its file.
bool task_file(std::string_view input) {
  using namespace evaluation;
  const std::vector<std::string> texts = split(input, 2);
  const TaskFormat* format = find_task_format(texts[0]);
  const std::string name = (format == nullptr ? "mine" : format->names.front()) + ".jsonl";
  const Task task = load_task(file_of(texts[1], name).string(), "");
  for (const std::vector<TextRequest>& requests : task_requests(task, task, {.shots = 1}))
    require(requests.size() >= 2 || task.format->kind == TaskKind::kCloze, "a document with one choice");
  return true;
}

bool graph_text(std::string_view input) {
  const Graph graph = parse_graph(input);
  graph.verify("fuzz");
  const std::string written = print_graph(graph);
  require(print_graph(again([&] { return parse_graph(written); })) == written, "a graph changed on its way");
  return true;
}

// As the library reads it, which takes quadratic time for some of it.
bool json(std::string_view input) {
  const nlohmann::json read = parse_json(input, {});
  require(read == nlohmann::json::parse(input), "JSON is read otherwise than the library does");
  return true;
}

// What is left of a log is its beginning.
bool metrics_log(std::string_view input) {
  const std::filesystem::path path = file_of(input, "metrics.jsonl");
  bool taken = true;
  {
    const MetricsLog log(path, 1, [&](const std::string&) { taken = false; });
  }
  const std::string left = read_text_file(path);
  require(input.starts_with(left), "a log changed when it was cut");
  require(taken || left == input, "what is no log was cut");
  return taken;
}

// A path, then links in a directory: name, target, name, target.
bool links(std::string_view input) {
  namespace fs = std::filesystem;
  const std::vector<std::string> texts = split(input, 13);
  const fs::path around = own_directory() / "links", run = around / "run";
  std::error_code ignored;
  fs::remove_all(around, ignored);
  fs::create_directories(run / "sub");
  fs::create_directories(around / "outside");
  for (const char* file : {"run/file", "run/sub/file", "outside/file"}) std::ofstream(around / file) << file;
  for (size_t i = 1; i + 1 < texts.size(); i += 2) {
    const fs::path name = fs::path(texts[i]).filename();
    // What is absolute stays in this directory, too.
    const fs::path target = texts[i + 1].starts_with('/') ? around.string() + texts[i + 1] : texts[i + 1];
    if (!texts[i].empty() && !texts[i + 1].empty()) fs::create_symlink(target, run / name, ignored);
  }
  const fs::path below = fs::path(texts[0]).relative_path();
  const int descriptor = open_enclosed(run, below, O_PATH);
  const fs::path reached = fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), ignored);
  ::close(descriptor);
  const fs::path from_run = reached.lexically_relative(fs::canonical(run));
  require(!ignored && !from_run.empty() && *from_run.begin() != "..", "a link out of the directory was followed");
  require(reached == fs::canonical(run / below), "a link was followed to something else");
  return true;
}

// A template, of one and the same chat.
bool chat_template(std::string_view input) {
  using namespace formats;
  const ChatTemplate parsed = ChatTemplate::parse(input, "chat_template.jinja");
  ChatInput given;
  given.messages = nlohmann::ordered_json::parse(R"([{"role": "user", "content": "q \u00e9 <b>"},
      {"role": "assistant", "content": ["x", {"k": 1.5, "n": null}], "reasoning": "r"}])");
  given.variables = {{"bos_token", "<s>"}};
  given.date = ChatDate{};
  const RenderedChat chat = parsed.render(given);
  size_t covered = 0;
  for (const ChatSpan& span : chat.spans) {
    require(span.begin == covered && span.end > covered, "spans that do not follow one another");
    covered = span.end;
  }
  require(covered == chat.text.size(), "spans that do not cover the text");
  require(first_invalid_byte(chat.text) == chat.text.size(), "a text that is not UTF-8");
  size_t end = 0;
  for (const TargetSpan& span : target_spans(parsed, given, chat)) {
    require(span.begin >= end && span.end > span.begin && span.end <= chat.text.size(), "targets out of order");
    end = span.end;
  }
  return true;
}

template <bool (*kParse)(std::string_view)>
bool run(std::string_view input) {
  try {
    return kParse(input);
  } catch (const Error&) {
    return false;
  }
}

constexpr FuzzTarget kTargets[] = {
    {"recipe", &run<recipe>},
    {"cost_table", &run<cost_table>},
    {"machines", &run<machines>},
    {"training_points", &run<training_points>},
    {"control_message", &run<control_message>},
    {"safetensors", &run<safetensors>},
    {"checkpoint_manifest", &run<checkpoint_manifest>},
    {"dataset_manifest", &run<dataset_manifest>},
    {"mds", &run<mds>},
    {"model_config", &run<model_config>},
    {"chat_template", &run<chat_template>},
    {"adapter_config", &run<adapter_config>},
    {"tokenizer", &run<tokenizer>},
    {"tokenizer_json", &run<tokenizer_json>},
    {"tokenizer_settings", &run<tokenizer_settings>},
    {"json_lines", &run<json_lines>},
    {"json_list", &run<json_list>},
    {"chat_record", &run<chat_record>},
    {"preference_record", &run<preference_record>},
    {"prompt_record", &run<prompt_record>},
    {"rollout_state", &run<rollout_state>},
    {"compressed", &run<compressed>},
    {"csv", &run<csv>},
    {"token_file", &run<token_file>},
    {"results", &run<results>},
    {"task_file", &run<task_file>},
    {"graph_text", &run<graph_text>},
    {"json", &run<json>},
    {"metrics_log", &run<metrics_log>},
    {"links", &run<links>},
};

}  // namespace

std::span<const FuzzTarget> fuzz_targets() { return kTargets; }

const FuzzTarget* find_fuzz_target(std::string_view name) {
  const auto* found = std::ranges::find_if(kTargets, [&](const FuzzTarget& target) { return target.name == name; });
  return found == std::end(kTargets) ? nullptr : found;
}

}  // namespace causeway::fuzz
