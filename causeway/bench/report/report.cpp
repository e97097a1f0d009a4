#include "causeway/bench/report/report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/printable.h"
#include "causeway/bench/report/shipped_text.h"
#include "causeway/bench/statistics.h"

namespace causeway::bench {
namespace {

using Json = nlohmann::json;

constexpr size_t kDetailBytes = 100'000;
constexpr size_t kRunsWithSurroundings = 20;

// Five significant digits, which no timing exceeds; null where there is no number.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  const std::string text = fmt::format("{:.5g}", value);
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  if (rounded == std::floor(rounded) && std::abs(rounded) < 1e15) return static_cast<int64_t>(rounded);
  return rounded;
}

Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

// Every text of the page once; the rest of the data refers to it by index.
class StringTable {
 public:
  size_t index(const std::string& text) {
    const auto [entry, is_new] = indices_.emplace(text, strings_.size());
    if (is_new) strings_.push_back(text);
    return entry->second;
  }
  const Json& strings() const { return strings_; }

 private:
  Json strings_ = Json::array();
  std::map<std::string, size_t> indices_;
};

Json indices(StringTable& strings, const std::vector<std::string>& texts) {
  Json result = Json::array();
  for (const std::string& text : texts) result.push_back(strings.index(text));
  return result;
}

Json indices(StringTable& strings, const std::map<std::string, std::string>& texts) {
  Json result = Json::array();
  for (const auto& [key, value] : texts) {
    result.push_back(strings.index(key));
    result.push_back(strings.index(value));
  }
  return result;
}

Json columns(const std::vector<const char*>& names) {
  Json result = Json::object();
  for (const char* name : names) result[name] = Json::array();
  return result;
}

// Columns whose neighbouring values repeat become {"runs": [value, count, ...]} where that is shorter.
void pack(Json& table) {
  for (auto& [name, column] : table.items()) {
    if (!column.is_array()) continue;
    Json runs = Json::array();
    size_t count = 0;
    for (size_t i = 0; i < column.size(); ++i) {
      ++count;
      if (i + 1 < column.size() && column[i + 1] == column[i]) continue;
      runs.push_back(column[i]);
      runs.push_back(count);
      count = 0;
    }
    if (runs.size() < column.size()) column = Json{{"runs", std::move(runs)}};
  }
}

// A detail that is a number above 0.
std::optional<double> detail_number(const Measurement& measurement, const std::string& key) {
  const auto detail = measurement.details.find(key);
  double value = 0;
  if (detail != measurement.details.end())
    std::from_chars(detail->second.data(), detail->second.data() + detail->second.size(), value);
  return value > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

int devices_used(const Measurement& measurement, const BenchmarkRun& run) {
  return std::max(1, static_cast<int>(detail_number(measurement, "devices").value_or(run.device_count)));
}

// A deviation from the median in ten-thousandths of it: as exact as five digits, at a third of their length.
Json deviation(double value, double median) {
  if (!(median > 0) || !std::isfinite(value)) return nullptr;
  return static_cast<int64_t>(std::llround((value / median - 1) * 10'000));
}

class PageData {
 public:
  PageData(const std::vector<BenchmarkRun>& runs, const CostTable& costs) : costs_(costs) {
    for (const BenchmarkRun& run : runs) runs_.push_back(&run);
    std::sort(runs_.begin(), runs_.end(), [](const BenchmarkRun* a, const BenchmarkRun* b) {
      return std::tie(a->started, a) < std::tie(b->started, b);
    });
    for (size_t r = 0; r < runs_.size(); ++r)
      for (const Measurement& measurement : runs_[r]->measurements)
        newest_[place(*runs_[r], measurement)] = &measurement;
  }

  Json json(const std::vector<PublishedResult>& published, const std::vector<RegressionMark>& regressions) {
    Json data;
    data["runs"] = runs_json();
    data["rows"] = rows_json();
    pack(cases_);
    data["cases"] = std::move(cases_);
    data["published"] = published_json(published);
    data["devices"] = devices_json(published);
    data["regressions"] = Json::array();
    for (const RegressionMark& mark : regressions)
      data["regressions"].push_back(
          {{"key", mark.key}, {"commit", mark.commit}, {"ratio", number(mark.ratio)}, {"device", mark.device}});
    data["costsFile"] = costs_.where;
    data["strings"] = strings_.strings();
    return data;
  }

 private:
  // What only a newer measurement replaces.
  static std::array<std::string, 2> place(const BenchmarkRun& run, const Measurement& measurement) {
    return {run.device, measurement.key()};
  }

  Json runs_json() {
    Json result = Json::array();
    std::set<std::string> seen;
    for (size_t r = runs_.size(); r-- > 0;) {
      const BenchmarkRun& run = *runs_[r];
      Json entry = {{"started", run.started},
                    {"command", strings_.index(run.command)},
                    {"commit", strings_.index(run.commit)},
                    {"device", strings_.index(run.device)},
                    {"architecture", strings_.index(run.architecture)},
                    {"count", run.device_count}};
      if (seen.insert(run.device).second || runs_.size() - r <= kRunsWithSurroundings) {
        entry["environment"] = indices(strings_, run.environment);
        entry["telemetry"] = Json::array();
        for (const Telemetry& t : run.telemetry)
          entry["telemetry"].push_back({strings_.index(t.moment), number(t.graphics_clock_mhz),
                                        number(t.memory_clock_mhz), number(t.power_watts),
                                        number(t.temperature_celsius), indices(strings_, t.throttle_reasons)});
      }
      result.push_back(std::move(entry));
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

  // What measurements of one workload have in common, once for all runs.
  size_t case_index(const Measurement& m, const BenchmarkRun& run) {
    const bool per_device = m.unit == "tokens/s";
    const double scale = m.higher_is_better() ? m.rate(1) / (per_device ? devices_used(m, run) : 1) : 0;
    const std::array<Json, 11> values = {strings_.index(m.benchmark),
                                         strings_.index(m.group),
                                         strings_.index(m.workload),
                                         number(m.size),
                                         strings_.index(m.dtype),
                                         strings_.index(m.provider),
                                         strings_.index(per_device ? m.unit + " per device" : m.unit),
                                         number(scale),
                                         m.statistic == Statistic::kMinimum ? 1 : 0,
                                         number(m.peak),
                                         strings_.index(m.peak_source)};
    const std::string key = Json(values).dump();
    const auto [entry, is_new] = case_indices_.emplace(key, case_indices_.size());
    if (is_new)
      for (size_t i = 0; i < values.size(); ++i) cases_[kCaseColumns[i]].push_back(values[i]);
    return entry->second;
  }

  Json rows_json() {
    Json rows = columns({"run", "case", "samples", "median", "mean", "minimum", "p5", "p95", "variation", "incorrect"});
    rows["distrust"] = Json::object();
    rows["check"] = Json::object();
    rows["details"] = Json::object();
    rows["energy"] = Json::object();
    std::vector<std::pair<std::string, const Measurement*>> newest;
    size_t row = 0;
    for (size_t r = 0; r < runs_.size(); ++r)
      for (const Measurement& m : runs_[r]->measurements) {
        const Summary summary = summarize(m);
        rows["run"].push_back(r);
        rows["case"].push_back(case_index(m, *runs_[r]));
        rows["samples"].push_back(summary.samples);
        rows["median"].push_back(number(summary.median));
        rows["mean"].push_back(deviation(summary.mean, summary.median));
        rows["minimum"].push_back(deviation(summary.minimum, summary.median));
        rows["p5"].push_back(deviation(summary.p5, summary.median));
        rows["p95"].push_back(deviation(summary.p95, summary.median));
        rows["variation"].push_back(std::llround(variation_between_rounds(m) * 10'000));
        if (!m.correct) rows["incorrect"].push_back(row);
        if (!m.distrust.empty()) rows["distrust"][std::to_string(row)] = indices(strings_, m.distrust);
        if (const std::optional<double> joules = detail_number(m, "J per token"))
          rows["energy"][std::to_string(row)] = number(*joules);
        if (newest_.at(place(*runs_[r], m)) == &m) newest.emplace_back(std::to_string(row), &m);
        ++row;
      }
    pack(rows);
    size_t bytes = 0;
    rows["shortened"] = false;
    for (auto entry = newest.rbegin(); entry != newest.rend(); ++entry) {
      const auto& [index, m] = *entry;
      bytes += m->check.size();
      for (const auto& [key, value] : m->details) bytes += key.size() + value.size();
      if (bytes > kDetailBytes) {
        rows["shortened"] = true;
        break;
      }
      if (!m->check.empty()) rows["check"][index] = strings_.index(m->check);
      if (!m->details.empty()) rows["details"][index] = indices(strings_, m->details);
    }
    return rows;
  }

  Json published_json(const std::vector<PublishedResult>& published) {
    Json result = Json::array();
    for (const PublishedResult& p : published)
      result.push_back({strings_.index(p.device), strings_.index(p.benchmark), strings_.index(p.group),
                        strings_.index(p.workload), strings_.index(p.dtype), number(p.size), number(p.value),
                        strings_.index(p.unit), strings_.index(p.source), strings_.index(p.date), strings_.index(p.tag),
                        strings_.index(p.note)});
    return result;
  }

  // Devices measured, newest first, then those that only publications know.
  Json devices_json(const std::vector<PublishedResult>& published) {
    Json result = Json::array();
    std::set<std::string> seen;
    const auto add = [&](const std::string& name, bool measured) {
      if (!seen.insert(name).second) return;
      Json entry = {{"name", name}, {"measured", measured}};
      if (const DeviceCost* cost = costs_.find(name))
        entry["cost"] = {{"dollars", cost->dollars_per_hour},
                         {"basis", cost->basis},
                         {"source", cost->source},
                         {"date", cost->date},
                         {"tag", cost->tag}};
      else
        entry["missing"] = costs_.missing_sentence(name);
      result.push_back(std::move(entry));
    };
    for (size_t r = runs_.size(); r-- > 0;) add(runs_[r]->device, true);
    for (const PublishedResult& p : published) add(p.device, false);
    return result;
  }

  static constexpr std::array<const char*, 11> kCaseColumns = {
      "benchmark", "group", "workload", "size", "dtype", "provider", "unit", "scale", "minimum", "peak", "peakSource"};

  const CostTable& costs_;
  std::vector<const BenchmarkRun*> runs_;                            // oldest first
  std::map<std::array<std::string, 2>, const Measurement*> newest_;  // by place()
  StringTable strings_;
  Json cases_ = columns({kCaseColumns.begin(), kCaseColumns.end()});
  std::map<std::string, size_t> case_indices_;
};

// Texts are shown as they are, whoever wrote them: what cannot be seen in them is made visible.
void make_texts_printable(Json& json) {
  if (json.is_string()) json = printable(json.get_ref<const std::string&>());
  if (json.is_structured())
    for (Json& part : json) make_texts_printable(part);
}

// JSON that cannot end the script element it stands in, nor open a comment there.
std::string json_for_script(Json json) {
  make_texts_printable(json);
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      result += "\\u003c";
    else if (c == '>')
      result += "\\u003e";
    else if (c == '&')
      result += "\\u0026";
    else
      result += c;
  }
  return result;
}

std::string replaced(const std::string& text, std::string_view mark, std::string_view with) {
  const size_t at = text.find(mark);
  CAUSEWAY_CHECK(at != std::string::npos, "the page has no {}", mark);
  return text.substr(0, at) + std::string(with) + text.substr(at + mark.size());
}

}  // namespace

std::string report_html(const std::vector<BenchmarkRun>& runs, const CostTable& costs,
                        const std::vector<PublishedResult>& published, const std::vector<RegressionMark>& regressions) {
  const auto part = [](const char* name) {
    return std::string(shipped_benchmark_text(fmt::format("causeway/bench/report/page/{}", name)));
  };
  std::string script;
  for (const char* name : {"results.js", "drawing.js", "bars.js", "curves.js", "history.js", "cost.js", "page.js"})
    script += part(name);
  // The data comes last: nothing is looked for in what a user wrote.
  std::string page = replaced(part("page.html"), "/*style*/", part("page.css"));
  page = replaced(page, "/*script*/", script);
  return replaced(page, "/*data*/", json_for_script(PageData(runs, costs).json(published, regressions)));
}

void write_report(const std::vector<BenchmarkRun>& runs, const CostTable& costs,
                  const std::vector<PublishedResult>& published, const std::vector<RegressionMark>& regressions,
                  const std::filesystem::path& path) {
  write_file_atomically(path, report_html(runs, costs, published, regressions));
}

}  // namespace causeway::bench
