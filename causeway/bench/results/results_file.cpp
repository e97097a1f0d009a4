#include "causeway/bench/results/results_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/json_document.h"
#include "causeway/bench/results/results_store.h"

namespace causeway::bench {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // for what is written: its look-ups take time by the number of keys
using Texts = std::vector<std::string>;
using NamedTexts = std::map<std::string, std::string>;

constexpr const char* kFormat = "causeway-benchmarks";
constexpr const char* kResultsFileHint = "Export the results again, or leave the file out.";

void put_optional(OrderedJson& json, const char* name, const std::optional<double>& value) {
  if (value) json[name] = *value;
}

OrderedJson to_json(const Telemetry& telemetry) {
  OrderedJson json = {{"moment", telemetry.moment}};
  put_optional(json, "graphics_clock_mhz", telemetry.graphics_clock_mhz);
  put_optional(json, "memory_clock_mhz", telemetry.memory_clock_mhz);
  put_optional(json, "power_watts", telemetry.power_watts);
  put_optional(json, "temperature_celsius", telemetry.temperature_celsius);
  json["throttle_reasons"] = telemetry.throttle_reasons;
  return json;
}

OrderedJson to_json(const Measurement& m) {
  OrderedJson json = {{"benchmark", m.benchmark}, {"group", m.group},       {"workload", m.workload}, {"size", m.size},
                      {"dtype", m.dtype},         {"provider", m.provider}, {"work", m.work},         {"unit", m.unit}};
  json["statistic"] = m.statistic == Statistic::kMinimum ? "minimum" : "median";
  json["rounds"] = m.rounds;
  if (!m.clock_mhz.empty()) json["clock_mhz"] = m.clock_mhz;
  put_optional(json, "peak", m.peak);
  json["peak_source"] = m.peak_source;
  json["correct"] = m.correct;
  json["check"] = m.check;
  json["distrust"] = m.distrust;
  json["details"] = m.details;
  return json;
}

OrderedJson to_json(const BenchmarkRun& run) {
  OrderedJson json = {
      {"started", run.started},        {"command", run.command},           {"commit", run.commit},
      {"device", run.device},          {"architecture", run.architecture}, {"device_count", run.device_count},
      {"environment", run.environment}};
  json["telemetry"] = OrderedJson::array();
  for (const Telemetry& telemetry : run.telemetry) json["telemetry"].push_back(to_json(telemetry));
  json["measurements"] = OrderedJson::array();
  for (const Measurement& measurement : run.measurements) json["measurements"].push_back(to_json(measurement));
  return json;
}

// A value of the file and its place, which every complaint names.
class Field {
 public:
  Field(const Json& json, std::string path, const std::string& file)
      : json_(json), path_(std::move(path)), file_(file) {}

  Field at(const std::string& name) const {
    const Json* found = find(name);
    if (found == nullptr) fail(member(name) + " is missing");
    return {*found, member(name), file_};
  }

  std::vector<Field> list() const {
    if (!json_.is_array()) fail(path_ + " must be a list");
    std::vector<Field> items;
    for (const Json& item : json_) items.emplace_back(item, fmt::format("{}[{}]", path_, items.size()), file_);
    return items;
  }

  std::string text() const {
    if (!json_.is_string()) fail(path_ + " must be a text");
    return json_.get<std::string>();
  }

  double number() const {
    const double value = json_.is_number() ? json_.get<double>() : NAN;
    if (!std::isfinite(value)) fail(path_ + " must be a number");
    return value;
  }

  double seconds() const {
    if (!json_.is_number() || number() < 0) fail(path_ + " must be a number of seconds, 0 or more");
    return number();
  }

  double positive() const {
    if (!json_.is_number() || !(number() > 0)) fail(path_ + " must be a number above 0");
    return number();
  }

  int count() const {
    const double value = number();
    if (value < 1 || value > 1e9 || value != std::floor(value)) fail(path_ + " must be a whole number, 1 or more");
    return static_cast<int>(value);
  }

  bool truth() const {
    if (!json_.is_boolean()) fail(path_ + " must be true or false");
    return json_.get<bool>();
  }

  std::optional<Field> optional(const std::string& name) const {
    const Json* found = find(name);
    if (found == nullptr || found->is_null()) return std::nullopt;
    return Field(*found, member(name), file_);
  }

  std::optional<double> optional_number(const std::string& name) const {
    const std::optional<Field> found = optional(name);
    return found ? std::optional(found->number()) : std::nullopt;
  }

  Texts texts() const {
    Texts result;
    for (const Field& item : list()) result.push_back(item.text());
    return result;
  }

  NamedTexts named_texts() const {
    if (!json_.is_object()) fail(path_ + " must be an object of texts");
    NamedTexts result;
    for (const auto& [name, value] : json_.items()) result[name] = Field(value, member(name), file_).text();
    return result;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kCorrupt, "the file of benchmark results cannot be used: " + what, file_, kResultsFileHint);
  }

 private:
  std::string member(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

  const Json* find(const std::string& name) const {
    if (!json_.is_object()) fail((path_.empty() ? "its content" : path_) + " must be an object");
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }

  const Json& json_;
  std::string path_;
  const std::string& file_;
};

Telemetry telemetry_from(const Field& field) {
  Telemetry telemetry;
  telemetry.moment = field.at("moment").text();
  telemetry.graphics_clock_mhz = field.optional_number("graphics_clock_mhz");
  telemetry.memory_clock_mhz = field.optional_number("memory_clock_mhz");
  telemetry.power_watts = field.optional_number("power_watts");
  telemetry.temperature_celsius = field.optional_number("temperature_celsius");
  telemetry.throttle_reasons = field.at("throttle_reasons").texts();
  return telemetry;
}

Statistic statistic_from(const Field& field) {
  const std::string name = field.text();
  if (name != "median" && name != "minimum") field.fail(fmt::format("the statistic '{}' is unknown", name));
  return name == "minimum" ? Statistic::kMinimum : Statistic::kMedian;
}

Measurement measurement_from(const Field& field) {
  Measurement m;
  m.benchmark = field.at("benchmark").text();
  m.group = field.at("group").text();
  m.workload = field.at("workload").text();
  m.size = field.at("size").number();
  m.dtype = field.at("dtype").text();
  m.provider = field.at("provider").text();
  m.work = field.at("work").number();
  m.unit = field.at("unit").text();
  m.statistic = statistic_from(field.at("statistic"));
  for (const Field& round : field.at("rounds").list()) {
    m.rounds.emplace_back();
    for (const Field& sample : round.list()) m.rounds.back().push_back(sample.seconds());
    if (m.rounds.back().empty()) field.fail(fmt::format("a round without samples, of {}", m.key()));
  }
  if (const std::optional<Field> clocks = field.optional("clock_mhz")) {
    for (const Field& clock : clocks->list()) m.clock_mhz.push_back(clock.positive());
    if (m.clock_mhz.size() != m.rounds.size())
      field.fail(fmt::format("{} clocks for {} rounds, of {}", m.clock_mhz.size(), m.rounds.size(), m.key()));
  }
  m.peak = field.optional_number("peak");
  m.peak_source = field.at("peak_source").text();
  m.correct = field.at("correct").truth();
  m.check = field.at("check").text();
  m.distrust = field.at("distrust").texts();
  m.details = field.at("details").named_texts();
  return m;
}

BenchmarkRun run_from(const Field& field) {
  BenchmarkRun run;
  run.started = field.at("started").text();
  run.command = field.at("command").text();
  run.commit = field.at("commit").text();
  run.device = field.at("device").text();
  run.architecture = field.at("architecture").text();
  run.device_count = field.at("device_count").count();
  run.environment = field.at("environment").named_texts();
  for (const Field& telemetry : field.at("telemetry").list()) run.telemetry.push_back(telemetry_from(telemetry));
  for (const Field& measurement : field.at("measurements").list())
    run.measurements.push_back(measurement_from(measurement));
  return run;
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace

std::string results_json(const std::vector<BenchmarkRun>& runs) {
  OrderedJson json = {{"format", kFormat}, {"version", kResultsFileVersion}, {"runs", OrderedJson::array()}};
  for (const BenchmarkRun& run : runs) json["runs"].push_back(to_json(run));
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string results_csv(const std::vector<BenchmarkRun>& runs) {
  std::string csv =
      "run,started,commit,device,device_count,benchmark,group,workload,size,dtype,provider,work,unit,correct,round,"
      "sample,seconds,figure\n";
  for (size_t r = 0; r < runs.size(); ++r) {
    const BenchmarkRun& run = runs[r];
    const std::string run_columns = fmt::format("{},{},{},{},{}", r + 1, csv_text(run.started), csv_text(run.commit),
                                                csv_text(run.device), run.device_count);
    for (const Measurement& m : run.measurements) {
      const std::string columns = fmt::format("{},{},{},{},{},{},{},{},{},{}", run_columns, csv_text(m.benchmark),
                                              csv_text(m.group), csv_text(m.workload), m.size, csv_text(m.dtype),
                                              csv_text(m.provider), m.work, csv_text(m.unit), m.correct);
      for (size_t round = 0; round < m.rounds.size(); ++round)
        for (size_t sample = 0; sample < m.rounds[round].size(); ++sample) {
          const double seconds = m.rounds[round][sample];
          fmt::format_to(std::back_inserter(csv), "{},{},{},{},{}\n", columns, round + 1, sample + 1, seconds,
                         m.rate(seconds));
        }
    }
  }
  return csv;
}

std::vector<BenchmarkRun> parse_results(std::string_view json, const std::string& file) {
  const Json document =
      parse_json(json, {.name = "the file of benchmark results", .where = file, .hint = kResultsFileHint});
  const Field root(document, "", file);
  if (!document.is_object() || !document.contains("format") || document["format"] != kFormat)
    root.fail(fmt::format("it does not begin with \"format\": \"{}\"", kFormat));
  const int version = root.at("version").count();
  if (version > kResultsFileVersion)
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the file of benchmark results was written by a newer version of causeway: its format is "
                            "version {}, and this program knows {}",
                            version, kResultsFileVersion),
                file, "Update causeway to read it.");
  std::vector<BenchmarkRun> runs;
  for (const Field& run : root.at("runs").list()) runs.push_back(run_from(run));
  return runs;
}

void write_results_json(const std::vector<BenchmarkRun>& runs, const std::filesystem::path& path) {
  write_file_atomically(path, results_json(runs));
}

void write_results_csv(const std::vector<BenchmarkRun>& runs, const std::filesystem::path& path) {
  write_file_atomically(path, results_csv(runs));
}

std::vector<BenchmarkRun> read_results_file(const std::filesystem::path& path) {
  return parse_results(read_text_file(path), path);
}

BenchmarkRun load_run_reference(const std::filesystem::path& store, const std::string& reference) {
  int64_t id = 0;
  const char* end = reference.data() + reference.size();
  const auto [last, error] = std::from_chars(reference.data(), end, id);
  const bool is_id = error == std::errc() && last == end;
  if (is_id || reference == "latest") {
    if (!std::filesystem::exists(store))
      throw Error(ErrorKind::kNotFound, "no benchmark results are stored yet", store,
                  "Run causeway bench first, or name a store with --store or a file of results.");
    const ResultsStore results(store);
    if (is_id) return results.load(id);
    const std::vector<StoredRun> runs = results.list();
    if (runs.empty())
      throw Error(ErrorKind::kNotFound, "there is no run in the store of benchmark results", store, known_runs(runs));
    return results.load(runs.back().id);
  }
  if (!std::filesystem::exists(reference))
    throw Error(ErrorKind::kNotFound, "there is no such run or file of benchmark results", reference,
                "Give the number of a stored run, 'latest', or a JSON file of results.");
  std::vector<BenchmarkRun> runs = read_results_file(reference);
  if (runs.empty()) throw Error(ErrorKind::kNotFound, "the file of benchmark results holds no run", reference);
  // Times are written alike, in UTC, so that their text sorts by time.
  return *std::max_element(runs.begin(), runs.end(),
                           [](const BenchmarkRun& a, const BenchmarkRun& b) { return a.started < b.started; });
}

std::vector<BenchmarkRun> load_earlier_runs(const std::filesystem::path& store, const BenchmarkRun& run) {
  if (!std::filesystem::exists(store)) return {};
  std::vector<BenchmarkRun> runs = ResultsStore(store).load_all();
  std::erase_if(runs, [&](const BenchmarkRun& other) { return other.started >= run.started; });
  std::sort(runs.begin(), runs.end(), [](const BenchmarkRun& a, const BenchmarkRun& b) {
    return std::tie(a.started, a.id) < std::tie(b.started, b.id);
  });
  return runs;
}

}  // namespace causeway::bench
