// The report page in a browser: Chromium without a window draws it at phone and desktop width, light and dark, while a
// script appended to the page uses it as a reader would and leaves what it found on the root element. Screenshots stay
// under the build folder, report_screenshots/. Skipped where Chromium is not installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>

#include "causeway/base/file.h"
#include "tests/bench/example_runs.h"

namespace causeway::bench {
namespace {

namespace fs = std::filesystem;

// What a command prints to its standard output.
std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return output;
  std::array<char, 65536> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  pclose(pipe);
  return output;
}

std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (const std::string path = output_of(std::string("command -v ") + name); !path.empty()) return name;
  return "";
}

// Runs after the page's own script.
const char* const kReader = R"js(<script>
(() => {
  const root = document.documentElement.dataset;
  root.width = innerWidth;
  root.overflow = document.documentElement.scrollWidth - innerWidth;
  drawEverything();
  const plots = [...document.querySelectorAll(".plot")];
  root.plots = plots.length;
  root.empty = plots.filter((plot) => !plot.querySelector("svg .mark")).length;
  root.marks = document.querySelectorAll("svg .mark").length;
  root.published = document.querySelectorAll(".mark .bar.published, .mark .dot.published").length;
  root.plain = document.querySelectorAll(".mark .bar:not(.published):not(.incorrect)").length;
  root.struck = document.querySelectorAll("svg .struck").length;
  root.regressions = document.querySelectorAll("svg .regression").length;
  root.clipped = [...document.querySelectorAll("svg text")].filter((text) => {
    const box = text.getBoundingClientRect(), frame = text.closest("svg").getBoundingClientRect();
    return box.width && (box.left < frame.left - 2 || box.right > frame.right + 2);
  }).map((text) => text.textContent).join(";");

  // Names of lines that were cut, and charts of energy.
  root.cut = [...document.querySelectorAll("svg text.strong, svg text.head")].map((text) => text.textContent)
      .filter((text) => text.includes("…")).join(";");
  root.energy = [...document.querySelectorAll("h4")].filter((title) => title.textContent.endsWith(", energy")).length;

  // Texts of one chart that lie over each other.
  let overlaps = [];
  for (const svg of document.querySelectorAll(".plot svg")) {
    const boxes = [...svg.querySelectorAll("text:not(.note)")].map((text) => [text, text.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; ++i)
      for (let j = i + 1; j < boxes.length; ++j) {
        const a = boxes[i][1], b = boxes[j][1];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 && high > 5)
          overlaps.push(boxes[i][0].textContent + "|" + boxes[j][0].textContent);
      }
  }
  root.overlaps = overlaps.join(";");

  // The least contrast of any text with the page.
  const luminance = (colour) => {
    const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = colour.match(/[\d.]+/g).map((c) => linear(Number(c) / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = luminance(getComputedStyle(document.body).backgroundColor);
  let least = 99;
  for (const node of document.querySelectorAll("main *, header *, nav *, footer *")) {
    const speaks = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!speaks || node.tagName === "NOSCRIPT") continue;
    const style = getComputedStyle(node);
    const own = luminance(node.namespaceURI.endsWith("svg") ? style.fill : style.color);
    least = Math.min(least, (Math.max(own, paper) + 0.05) / (Math.min(own, paper) + 0.05));
  }
  root.contrast = least.toFixed(2);

  // Arrow keys on the first chart.
  const plot = plots[0];
  plot.focus();
  root.focused = document.activeElement === plot;
  const press = (key) => plot.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  const readout = () => plot.parentElement.querySelector(".readout").textContent;
  press("ArrowDown");
  root.first = readout();
  press("ArrowDown");
  root.second = readout();
  press("End");
  root.last = readout();
  press("Escape");
  root.rest = readout();

  const details = plot.parentElement.querySelector("details.data");
  details.open = true;
  details.dispatchEvent(new Event("toggle"));
  root.rows = details.querySelectorAll("tbody tr").length;
  root.unnamed = document.querySelectorAll("button:empty, a:empty").length +
      plots.filter((p) => !p.getAttribute("aria-label")).length;
  const before = getComputedStyle(document.body).backgroundColor;
  document.getElementById("theme").click();
  root.paper = paper < 0.2 ? "dark" : "light";
  root.toggled = getComputedStyle(document.body).backgroundColor !== before;
  root.csv = csvText().trimEnd().split("\r\n").length - 1;
  const chip = document.getElementById("published");
  chip.click();
  drawEverything();
  root.withoutpublished = document.querySelectorAll(".mark .bar.published, .mark .dot.published").length;
  root.sentences = [...document.querySelectorAll(".sentences li")].map((item) => item.textContent).join(" / ");
  root.finished = "yes";
  parent.postMessage({...root}, "*");
})();
</script>)js";

class ReportPage : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void SetUp() override {
    browser_ = browser();
    if (browser_.empty()) GTEST_SKIP() << "Chromium is not installed; the report page is not tested in a browser";
    folder_ = fs::path(CAUSEWAY_BINARY_DIR) / "report_screenshots";
    fs::create_directories(folder_);
  }

  std::string browse(const std::string& arguments, const fs::path& page) const {
    const auto [width, dark] = GetParam();
    return output_of(fmt::format(
        "{} --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size={},900 {} {} 'file://{}' 2>/dev/null",
        browser_, width, dark ? "--blink-settings=preferredColorScheme=0" : "", arguments, page.string()));
  }

  // A page that shows `page` in a frame of this test's width, for a window is never narrower than 500 pixels, and takes
  // over what the reader found.
  fs::path framed(const fs::path& page) const {
    const fs::path frame = fs::path(page).replace_extension(".frame.html");
    write_file_atomically(frame, fmt::format(R"(<!doctype html><html><head></head><body style="margin: 0"><script>
addEventListener("message", (event) => Object.assign(document.documentElement.dataset, event.data));
</script><iframe width="{}" height="900" style="border: 0" src="{}"></iframe></body></html>)",
                                             std::get<0>(GetParam()), page.filename().string()));
    return frame;
  }

  // The root element's data-NAME in what the browser made of the page.
  static std::string found(const std::string& dom, const std::string& name) {
    std::smatch match;
    const std::regex attribute(" data-" + name + "=\"([^\"]*)\"");
    const size_t from = std::min(dom.find("<html"), dom.size());
    const std::string html = dom.substr(from, dom.find("<head>", from) - from);
    return std::regex_search(html, match, attribute) ? match[1].str() : "(absent)";
  }

  fs::path write(const std::string& name, std::string page, bool with_reader) const {
    if (with_reader) page.insert(page.rfind("</body>"), kReader);
    const fs::path path = folder_ / fmt::format("{}_{}_{}.html", name, std::get<0>(GetParam()),
                                                std::get<1>(GetParam()) ? "dark" : "light");
    write_file_atomically(path, page);
    return path;
  }

  std::string browser_;
  fs::path folder_;
};

std::vector<BenchmarkRun> all_runs(int history) {
  std::vector<BenchmarkRun> runs = example_history(history, history / 2);
  runs.push_back(example_cpu_run());
  runs.push_back(example_h200_run());
  return runs;
}

TEST_P(ReportPage, DrawsAndAnswers) {
  const std::vector<BenchmarkRun> runs = all_runs(24);
  const std::string page =
      report_html(runs, shipped_cost_table(), shipped_published_results(), {example_regression(runs, 12)});
  const std::string dom = browse("--virtual-time-budget=10000 --dump-dom", framed(write("used", page, true)));
  ASSERT_EQ(found(dom, "finished"), "yes") << found(dom, "error");
  EXPECT_EQ(found(dom, "error"), "(absent)");
  EXPECT_EQ(found(dom, "width"), std::to_string(std::get<0>(GetParam())));
  EXPECT_EQ(found(dom, "overflow"), "0");
  EXPECT_EQ(found(dom, "empty"), "0");
  EXPECT_EQ(found(dom, "clipped"), "");
  EXPECT_EQ(found(dom, "overlaps"), "");
  EXPECT_EQ(found(dom, "cut"), "");
  EXPECT_EQ(found(dom, "energy"), "4");
  EXPECT_GT(std::stoi(found(dom, "plots")), 25);
  EXPECT_GT(std::stoi(found(dom, "marks")), 300);
  EXPECT_GT(std::stoi(found(dom, "published")), 30);
  EXPECT_GT(std::stoi(found(dom, "plain")), 60);
  EXPECT_GE(std::stoi(found(dom, "struck")), 1);
  EXPECT_EQ(found(dom, "regressions"), "1");
  EXPECT_GE(std::stod(found(dom, "contrast")), 4.5);
  EXPECT_EQ(found(dom, "focused"), "true");
  EXPECT_THAT(found(dom, "first"),
              testing::AllOf(testing::StartsWith("Causeway, H200, 16384x8192x1280, bf16: "),
                             testing::HasSubstr("of the peak of 989.5 TFLOP/s (NVIDIA H200 data sheet, dense bf16)"),
                             testing::HasSubstr("Median of 100 samples, 5th to 95th percentile ")));
  EXPECT_THAT(found(dom, "second"), testing::StartsWith("cuBLASLt 12.8, H200, 16384x8192x1280, bf16: "));
  EXPECT_THAT(found(dom, "last"),
              testing::AllOf(testing::StartsWith("MI300X, the five shapes, bf16: 620 TFLOP/s"),
                             testing::HasSubstr(
                                 "Published, SemiAnalysis, MI300X vs H100 vs H200, Part 1, 2024-12-22 (primary).")));
  EXPECT_EQ(found(dom, "rest"), "Point at a mark, tap it, or use the arrow keys.");
  EXPECT_EQ(found(dom, "rows"), "18");
  EXPECT_EQ(found(dom, "unnamed"), "0");
  EXPECT_EQ(found(dom, "paper"), std::get<1>(GetParam()) ? "dark" : "light");
  EXPECT_EQ(found(dom, "toggled"), "true");
  size_t count = shipped_published_results().size();
  for (const BenchmarkRun& run : runs) count += run.measurements.size();
  EXPECT_EQ(found(dom, "csv"), std::to_string(count));
  EXPECT_EQ(found(dom, "withoutpublished"), "0");
  EXPECT_THAT(found(dom, "sentences"),
              testing::HasSubstr("No hourly cost for AMD EPYC 9554 64-Core Processor in costs.yaml; add"));
  EXPECT_THAT(found(dom, "sentences"),
              testing::HasSubstr("16384x8192x1280, bf16, Causeway on H200: 4.2 % slower since commit"));
}

// How long it took is printed, not asserted: that depends on what else the machine does.
TEST_P(ReportPage, DrawsTenThousandMeasurements) {
  const std::string page = report_html(all_runs(71), shipped_cost_table(), shipped_published_results(), {});
  const fs::path path = write("large", page, false);
  const std::string ready = found(browse("--dump-dom", path), "ready");
  ASSERT_NE(ready, "(absent)");
  fmt::print("drawn after {} ms\n", ready);
  const fs::path picture = fs::path(path).replace_extension(".png");
  fs::remove(picture);
  browse(fmt::format("--virtual-time-budget=3000 --screenshot={}", picture.string()), path);
  EXPECT_GT(fs::file_size(picture), 20'000u);
}

// The widest measured bar of each chart, as a part of the chart's width: the least of all charts.
const char* const kWidths = R"js(<script>
(() => {
  const root = document.documentElement.dataset;
  drawEverything();
  const charts = [...document.querySelectorAll(".plot svg")].filter((svg) => svg.querySelector(".bar:not(.published)"));
  root.charts = charts.length;
  root.least = Math.min(...charts.map((svg) => Math.max(
      ...[...svg.querySelectorAll(".bar:not(.published)")].map((bar) => bar.getBBox().width)) /
          svg.getBoundingClientRect().width));
  root.cutopen = document.querySelectorAll("svg .break").length;
  root.told = document.body.textContent.includes("a bar that is cut open is longer than drawn");
  root.finished = "yes";
  parent.postMessage({...root}, "*");
})();
</script>)js";

// A processor's figures beside published ones of GPUs, which are tens of times as large.
TEST_P(ReportPage, PublishedFiguresOfFasterDevicesLeaveRoomForMeasuredOnes) {
  BenchmarkRun run = example_cpu_run();
  std::vector<PublishedResult> published = shipped_published_results();
  for (const Measurement& m : run.measurements)
    if (m.unit == "GB/s" || m.unit == "TFLOP/s") {
      PublishedResult faster = published.front();
      faster.benchmark = m.benchmark;
      faster.group = m.group;
      faster.workload = m.workload;
      faster.dtype = m.dtype;
      faster.unit = m.unit;
      faster.size = m.size;
      faster.value = 50 * m.rate(m.rounds[0][0]);
      published.push_back(faster);
    }
  std::string page = report_html({run}, shipped_cost_table(), published, {});
  page.insert(page.rfind("</body>"), kWidths);
  const std::string dom =
      browse("--virtual-time-budget=10000 --dump-dom", framed(write("faster", std::move(page), false)));
  ASSERT_EQ(found(dom, "finished"), "yes") << found(dom, "error");
  EXPECT_GT(std::stoi(found(dom, "charts")), 0);
  EXPECT_GT(std::stod(found(dom, "least")), 0.15);
  EXPECT_GT(std::stoi(found(dom, "cutopen")), 0);
  EXPECT_EQ(found(dom, "told"), "true");
}

TEST_P(ReportPage, HostileTextAndNoRunsAreDrawnToo) {
  BenchmarkRun run = example_cpu_run();
  run.device = "</script><script>document.documentElement.dataset.broken = 1</script>";
  run.measurements[0].provider = "<img src=x onerror='document.documentElement.dataset.broken = 1'>";
  run.measurements[0].workload = "\"><svg onload=document.documentElement.dataset.broken=1>";
  run.measurements[1].rounds = {{0.0, 0.0}};
  for (const std::vector<BenchmarkRun>& runs : {std::vector<BenchmarkRun>{run}, std::vector<BenchmarkRun>{}}) {
    const std::string page = report_html(runs, shipped_cost_table(), shipped_published_results(), {});
    const std::string dom = browse("--dump-dom", write("hostile", page, false));
    EXPECT_NE(found(dom, "ready"), "(absent)");
    EXPECT_EQ(found(dom, "error"), "(absent)");
    EXPECT_EQ(found(dom, "broken"), "(absent)");
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, ReportPage, testing::Combine(testing::Values(360, 1280), testing::Bool()),
                         [](const auto& info) {
                           return fmt::format("{}{}", std::get<1>(info.param) ? "Dark" : "Light",
                                              std::get<0>(info.param));
                         });

}  // namespace
}  // namespace causeway::bench
