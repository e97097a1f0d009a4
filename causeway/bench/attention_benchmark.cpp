#include "causeway/bench/attention_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "causeway/base/error.h"
#include "causeway/bench/choices.h"
#include "causeway/program/context.h"
#include "causeway/program/program.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/step.h"

namespace causeway::bench {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr std::array<int64_t, 6> kDocumentSixteenths = {5, 3, 4, 1, 2, 1};
// Of soft-capped scores: so low that random ones are changed by it, and a check sees whether they were.
constexpr double kScoreCap = 2;

int64_t document_start(int64_t document, int64_t length) {
  int64_t sixteenths = 0;
  for (int64_t i = 0; i < document; ++i) sixteenths += kDocumentSixteenths[static_cast<size_t>(i)];
  return sixteenths * length / 16;
}

int64_t document_of(int64_t position, int64_t length) {
  int64_t document = 0;
  while (document + 1 < static_cast<int64_t>(kDocumentSixteenths.size()) &&
         document_start(document + 1, length) <= position)
    ++document;
  return document;
}

double slope(const AttentionCase& c, int64_t head) {
  return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(c.heads));
}

std::string_view pattern_name(AttentionPattern pattern) {
  switch (pattern) {
    case AttentionPattern::kCausal:
      return "causal";
    case AttentionPattern::kFull:
      return "full";
    case AttentionPattern::kSlidingWindow:
      return "window";
    case AttentionPattern::kDocument:
      return "document";
    case AttentionPattern::kAlibi:
      return "ALiBi";
    default:
      return "softcap";
  }
}

const std::vector<std::string>& pattern_choices() {
  static const std::vector<std::string> names = {"causal",   "full",  "window",
                                                 "document", "alibi", "softcap"};  // as the enum
  return names;
}

int64_t standard_window(int64_t length) { return length > 1024 ? 1024 : std::max<int64_t>(1, length / 4); }

void check_heads(const AttentionCase& c, const std::string& where) {
  if (c.key_heads < 1 || c.heads % c.key_heads != 0)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} query heads cannot share {} key heads evenly", c.heads, c.key_heads), where,
                "Give a number of query heads that is a multiple of the number of key heads.");
}

AttentionCase parse_attention_shape(const std::string& text) {
  AttentionCase c;
  const std::array<int64_t*, 6> sizes = {&c.batch, &c.heads, &c.key_heads, &c.length, &c.head_dim, &c.value_dim};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  bool good = true, more = true;
  for (size_t i = 0; i < sizes.size() && good && more; ++i) {
    const auto [next, error] = std::from_chars(at, end, *sizes[i]);
    good = error == std::errc() && *sizes[i] > 0 && *sizes[i] <= (int64_t{1} << 24);
    at = next;
    more = i < 4 || at != end;
    if (good && i + 1 < sizes.size() && more) {
      good = at != end && (*at == 'x' || *at == ',');
      if (good) ++at;
    }
  }
  if (!good || at != end)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is not a shape of attention", text), "--shape",
                "Give batch, query heads, key heads, sequence length and head dimension, for example 4x32x8x4096x128, "
                "and that of values where it is another one, as 2x16x16x4096x192x128.");
  check_heads(c, "--shape " + text);
  return c;
}

AttentionOptions options_of(const AttentionCase& c, const Tensor& extra) {
  AttentionOptions options;
  switch (c.pattern) {
    case AttentionPattern::kCausal:
      options.mask = causal_mask();
      break;
    case AttentionPattern::kFull:
      break;
    case AttentionPattern::kSlidingWindow:
      options.mask = sliding_window_mask(c.window);
      break;
    case AttentionPattern::kDocument:
      options.mask = and_masks({causal_mask(), document_mask(extra)});
      break;
    case AttentionPattern::kAlibi:
      options.mask = causal_mask();
      options.score = alibi_score(extra);
      break;
    case AttentionPattern::kSoftCap:
      options.mask = causal_mask();
      options.score = softcap_score(kScoreCap);
      break;
  }
  return options;
}

bool has_extra(const AttentionCase& c) {
  return c.pattern == AttentionPattern::kDocument || c.pattern == AttentionPattern::kAlibi;
}

Tensor make_extra(const AttentionCase& c) {
  std::vector<double> values;
  if (c.pattern == AttentionPattern::kDocument) {
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t t = 0; t < c.length; ++t) values.push_back(static_cast<double>(document_of(t, c.length)));
    return Tensor::from_values(values, {c.batch, c.length}, DType::kI32);
  }
  for (int64_t h = 0; h < c.heads; ++h) values.push_back(slope(c, h));
  return Tensor::from_values(values, {c.heads});
}

// One row of [B, T, heads, width].
std::vector<double> read_row(Device& device, const void* memory, const AttentionCase& c, int64_t heads, int64_t width,
                             int64_t batch, int64_t position, int64_t head) {
  const auto row_bytes = static_cast<size_t>(width) * size_bytes(c.dtype);
  std::vector<std::byte> bytes(row_bytes);
  const auto row = static_cast<size_t>((batch * c.length + position) * heads + head);
  device.copy_to_host(bytes.data(), static_cast<const std::byte*>(memory) + row * row_bytes, row_bytes);
  std::vector<double> values(static_cast<size_t>(width));
  for (size_t d = 0; d < values.size(); ++d) values[d] = read_element(c.dtype, bytes.data(), d);
  return values;
}

// Neighbouring heads of one sequence of [B, T, heads, width]: for each, T rows of them.
std::vector<Rows> read_heads(Device& device, const void* memory, const AttentionCase& c, int64_t heads, int64_t width,
                             int64_t batch, int64_t first, int64_t count) {
  const auto row_elements = static_cast<size_t>(heads * width);
  std::vector<std::byte> bytes(static_cast<size_t>(c.length) * row_elements * size_bytes(c.dtype));
  device.copy_to_host(bytes.data(), static_cast<const std::byte*>(memory) + static_cast<size_t>(batch) * bytes.size(),
                      bytes.size());
  const auto length = static_cast<size_t>(c.length), head_dim = static_cast<size_t>(width);
  std::vector<Rows> result(static_cast<size_t>(count), Rows(length, std::vector<double>(head_dim)));
  for (size_t i = 0; i < result.size(); ++i)
    for (size_t t = 0; t < length; ++t)
      for (size_t d = 0; d < head_dim; ++d)
        result[i][t][d] =
            read_element(c.dtype, bytes.data(), t * row_elements + (static_cast<size_t>(first) + i) * head_dim + d);
  return result;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double norm(const std::vector<double>& a) { return std::sqrt(dot(a, a)); }
double distance(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a);
}

// Rounding errors are random, so a row's error is judged by lengths of vectors: several times the precision of the
// numbers that are rounded on the way.
double allowed_error(DType dtype) { return dtype == DType::kBF16 ? 0x1p-6 : dtype == DType::kF16 ? 0x1p-9 : 0x1p-12; }

// Rows of one sequence and group of heads, computed in double.
class AttentionReference {
 public:
  AttentionReference(Device& device, const AttentionCase& c, const AttentionBuffers& buffers)
      : device_(device),
        case_(c),
        batch_(c.batch - 1),
        key_head_(c.key_heads - 1),
        group_(c.heads / c.key_heads),
        k_(read_heads(device, buffers.k, c, c.key_heads, c.head_dim, batch_, key_head_, 1)[0]),
        v_(read_heads(device, buffers.v, c, c.key_heads, c.width_of_values(), batch_, key_head_, 1)[0]),
        q_(read_heads(device, buffers.q, c, c.heads, c.head_dim, batch_, first_head(), group_)) {
    if (c.backward)
      dout_ = read_heads(device, buffers.dout, c, c.heads, c.width_of_values(), batch_, first_head(), group_);
    // In the first and the last head of the group.
    for (const int64_t query : {c.length / 4, 2 * c.length / 5, 7 * c.length / 10, c.length - 1})
      for (const int64_t head : {int64_t{0}, group_ - 1}) add_row(head, query);
  }

  // Raises `worst` to the largest error in rows of the results, as a share of what is allowed.
  void check_rows(const AttentionBuffers& buffers, double& worst) const {
    const auto read = [&](const void* memory, const Row& row, int64_t width) {
      return read_row(device_, memory, case_, case_.heads, width, batch_, static_cast<int64_t>(row.query),
                      first_head() + static_cast<int64_t>(row.head));
    };
    for (const Row& row : rows_) {
      note(distance(read(buffers.out, row, case_.width_of_values()), row.out), norm(row.out), worst);
      if (case_.backward) note(distance(read(buffers.dq, row, case_.head_dim), row.dq), row.dq_scale, worst);
    }
  }

  // The same for the sums over all keys, which take reading whole heads.
  void check_sums(const AttentionBuffers& buffers, double& worst) const {
    if (!case_.backward) return;
    const std::vector<Rows> dq =
        read_heads(device_, buffers.dq, case_, case_.heads, case_.head_dim, batch_, first_head(), group_);
    const Rows dk = read_heads(device_, buffers.dk, case_, case_.key_heads, case_.head_dim, batch_, key_head_, 1)[0];
    const Rows dv =
        read_heads(device_, buffers.dv, case_, case_.key_heads, case_.width_of_values(), batch_, key_head_, 1)[0];
    std::vector<double> of_dv(v_[0].size(), 0), of_dout(v_[0].size(), 0);
    double of_k = 0, of_q = 0, squares = 0;
    for (size_t t = 0; t < dk.size(); ++t) {
      of_k += dot(k_[t], dk[t]);
      squares += dot(k_[t], k_[t]) * dot(dk[t], dk[t]);
      for (size_t d = 0; d < of_dv.size(); ++d) of_dv[d] += dv[t][d];
      for (size_t head = 0; head < q_.size(); ++head) {
        of_q += dot(q_[head][t], dq[head][t]);
        squares += dot(q_[head][t], q_[head][t]) * dot(dq[head][t], dq[head][t]);
        for (size_t d = 0; d < of_dout.size(); ++d) of_dout[d] += dout_[head][t][d];
      }
    }
    note(distance(of_dv, of_dout), norm(of_dout), worst);
    note(std::abs(of_k - of_q), std::sqrt(squares), worst);
  }

  size_t rows() const { return rows_.size(); }

 private:
  struct Row {
    size_t head, query;
    std::vector<double> out, dq;
    double dq_scale = 0;  // what its error is judged by
  };

  int64_t first_head() const { return key_head_ * group_; }

  void note(double error, double scale, double& worst) const {
    const double share = error / (allowed_error(case_.dtype) * scale + 1e-30);
    // A NaN compares as no smaller, and stays.
    if (!(share <= worst)) worst = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
  }

  void add_row(int64_t head, int64_t query) {
    Row row = {static_cast<size_t>(head), static_cast<size_t>(query), {}, {}, 0};
    const std::vector<double>& q = q_[row.head][row.query];
    const double scale = 1 / std::sqrt(static_cast<double>(case_.head_dim));
    std::vector<double> share(k_.size(), 0), slopes(k_.size(), 1);  // of scores, by q and k
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (size_t j = 0; j < k_.size(); ++j) {
      const auto key = static_cast<int64_t>(j);
      if (!attends(case_, query, key)) {
        share[j] = -std::numeric_limits<double>::infinity();
        continue;
      }
      share[j] = scale * dot(q, k_[j]);
      if (case_.pattern == AttentionPattern::kAlibi)
        share[j] += slope(case_, first_head() + head) * static_cast<double>(key - query);
      if (case_.pattern == AttentionPattern::kSoftCap) {
        const double capped = std::tanh(share[j] / kScoreCap);
        share[j] = kScoreCap * capped;
        slopes[j] = 1 - capped * capped;
      }
      largest = std::max(largest, share[j]);
    }
    for (double& x : share) sum += x = std::exp(x - largest);
    row.out.assign(v_[0].size(), 0);
    for (size_t j = 0; j < share.size(); ++j) {
      share[j] /= sum;
      for (size_t d = 0; d < row.out.size(); ++d) row.out[d] += share[j] * v_[j][d];
    }
    if (case_.backward) {
      const std::vector<double>& dout = dout_[row.head][row.query];
      const double delta = dot(dout, row.out);
      row.dq.assign(q.size(), 0);
      for (size_t j = 0; j < share.size(); ++j) {
        if (share[j] == 0) continue;
        const double ds = slopes[j] * share[j] * (dot(dout, v_[j]) - delta);
        for (size_t d = 0; d < q.size(); ++d) row.dq[d] += scale * ds * k_[j][d];
      }
      // dout . out is taken from dout . v: where one key has nearly all the weight little remains, but the rounding of
      // out does.
      std::vector<double> mean_key(q.size(), 0);
      for (size_t j = 0; j < share.size(); ++j)
        for (size_t d = 0; d < q.size(); ++d) mean_key[d] += share[j] * k_[j][d];
      row.dq_scale = norm(row.dq) + scale * norm(dout) * norm(row.out) * norm(mean_key);
    }
    rows_.push_back(std::move(row));
  }

  Device& device_;
  AttentionCase case_;
  int64_t batch_, key_head_, group_;
  Rows k_, v_;
  std::vector<Rows> q_, dout_;  // by head of the group
  std::vector<Row> rows_;
};

}  // namespace

std::string AttentionCase::group() const {
  return fmt::format("head dimension {}, {}", widths(), backward ? "forward and backward" : "forward");
}

std::string AttentionCase::workload() const {
  return fmt::format("{}{} {}x{}, {}/{} heads of {}, {}", pattern_name(pattern),
                     pattern == AttentionPattern::kSlidingWindow ? fmt::format(" {}", window) : "", batch, length,
                     heads, key_heads, widths(), backward ? "both" : "forward");
}

std::string AttentionCase::widths() const {
  const bool same = width_of_values() == head_dim;
  return same ? fmt::format("{}", head_dim) : fmt::format("{} and {} for values", head_dim, value_dim);
}

bool attends(const AttentionCase& c, int64_t query, int64_t key) {
  if (c.pattern == AttentionPattern::kFull) return true;
  if (key > query) return false;
  if (c.pattern == AttentionPattern::kSlidingWindow) return query - key < c.window;
  if (c.pattern == AttentionPattern::kDocument) return document_of(query, c.length) == document_of(key, c.length);
  return true;
}

double mask_density(const AttentionCase& c) {
  const auto triangle = [](int64_t n) { return static_cast<double>(n) * static_cast<double>(n + 1) / 2; };
  double pairs = triangle(c.length);
  switch (c.pattern) {
    case AttentionPattern::kFull:
      return 1;
    case AttentionPattern::kSlidingWindow:
      if (c.window < c.length) pairs -= triangle(c.length - c.window);
      break;
    case AttentionPattern::kDocument:
      pairs = 0;
      for (int64_t i = 0; i < static_cast<int64_t>(kDocumentSixteenths.size()); ++i)
        pairs += triangle(document_start(i + 1, c.length) - document_start(i, c.length));
      break;
    default:
      break;
  }
  return pairs / (static_cast<double>(c.length) * static_cast<double>(c.length));
}

double attention_flops(const AttentionCase& c) {
  const auto head_dim = static_cast<double>(c.head_dim), value_dim = static_cast<double>(c.width_of_values());
  const double of_pair = c.backward ? 2 * (4 * head_dim + 3 * value_dim) : 2 * (head_dim + value_dim);
  return of_pair * static_cast<double>(c.batch * c.heads) * static_cast<double>(c.length) *
         static_cast<double>(c.length) * mask_density(c);
}

std::vector<AttentionCase> standard_attention_cases(bool is_gpu, DType dtype, int64_t memory_bytes) {
  std::vector<AttentionCase> cases;
  for (const int64_t head_dim : {128, 64}) {
    for (const bool backward : {false, true}) {
      for (const auto pattern : {AttentionPattern::kCausal, AttentionPattern::kFull, AttentionPattern::kSlidingWindow,
                                 AttentionPattern::kDocument, AttentionPattern::kAlibi, AttentionPattern::kSoftCap}) {
        AttentionCase c;
        c.pattern = pattern;
        c.head_dim = head_dim;
        c.backward = backward;
        c.dtype = dtype;
        for (const int64_t length : is_gpu ? std::vector<int64_t>{4096, 8192} : std::vector<int64_t>{512}) {
          c.length = length;
          c.batch = is_gpu ? 16384 / length : 1;
          c.window = standard_window(length);
          if (!is_gpu) {
            c.heads = 8;
            c.key_heads = 2;
          }
          // Operands, results and their gradients, once more for what the passes keep in between.
          const int64_t bytes = 4 * c.batch * c.length * (2 * c.heads + 2 * c.key_heads) * c.head_dim *
                                static_cast<int64_t>(size_bytes(dtype));
          if (memory_bytes == 0 || bytes < memory_bytes / 2) cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

std::vector<AttentionCase> choose_attention_cases(const AttentionChoice& choice, bool is_gpu, DType dtype,
                                                  int64_t memory_bytes) {
  const std::vector<std::string>& names = pattern_choices();
  std::vector<AttentionPattern> patterns;
  for (const std::string& name : choice.patterns.empty() ? names : choice.patterns)
    patterns.push_back(static_cast<AttentionPattern>(choose("pattern of attention", name, "--pattern", names)));
  const std::vector<std::string> directions = {"forward", "backward"};
  std::vector<bool> backward;
  for (const std::string& name : choice.directions.empty() ? directions : choice.directions)
    backward.push_back(choose("direction of attention", name, "--direction", directions) == 1);
  const auto has = [](const auto& list, auto wanted) {
    return std::find(list.begin(), list.end(), wanted) != list.end();
  };
  if (choice.window && *choice.window < 1)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("a window of {} keys shows nothing", *choice.window),
                "--window", "Give a number of keys from 1, the query's own among them.");
  if (choice.window && !has(patterns, AttentionPattern::kSlidingWindow))
    throw Error(ErrorKind::kInvalidArgument, "no pattern that was chosen has a window", "--window",
                "Add window to --pattern, or leave --window out.");

  std::vector<AttentionCase> cases;
  if (choice.shapes.empty()) {
    cases = standard_attention_cases(is_gpu, dtype, memory_bytes);
    std::erase_if(cases,
                  [&](const AttentionCase& c) { return !has(patterns, c.pattern) || !has(backward, c.backward); });
  }
  for (const std::string& shape : choice.shapes) {
    AttentionCase c = parse_attention_shape(shape);
    c.dtype = dtype;
    c.window = standard_window(c.length);
    for (const bool both : backward)
      for (const AttentionPattern pattern : patterns) {
        c.backward = both;
        c.pattern = pattern;
        cases.push_back(c);
      }
  }
  for (AttentionCase& c : cases)
    if (choice.window) c.window = *choice.window;
  return cases;
}

AttentionProvider causeway_attention() {
  return {"Causeway", [](const AttentionCase& c, const AttentionBuffers& buffers) -> TimedWork {
            const TensorType queries = {c.dtype, {Dim(c.batch), Dim(c.length), Dim(c.heads), Dim(c.head_dim)}};
            const TensorType keys = {c.dtype, {Dim(c.batch), Dim(c.length), Dim(c.key_heads), Dim(c.head_dim)}};
            const Dim value_dim(c.width_of_values());
            const TensorType values = {c.dtype, {Dim(c.batch), Dim(c.length), Dim(c.key_heads), value_dim}};
            std::vector<StepArgument> types = {queries, keys, values};
            std::vector<void*> inputs = {buffers.q, buffers.k, buffers.v}, outputs = {buffers.out};
            if (c.backward) {
              types.push_back(TensorType{c.dtype, {Dim(c.batch), Dim(c.length), Dim(c.heads), value_dim}});
              inputs.push_back(buffers.dout);
              outputs.insert(outputs.end(), {buffers.dq, buffers.dk, buffers.dv});
            }
            if (has_extra(c)) {
              types.push_back(c.pattern == AttentionPattern::kDocument
                                  ? TensorType{DType::kI32, {Dim(c.batch), Dim(c.length)}}
                                  : TensorType{DType::kF32, {Dim(c.heads)}});
              inputs.push_back(buffers.extra);
            }
            const auto step = std::make_shared<Step>([c](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
              const Tensor& q = arguments[0];
              const Tensor& k = arguments[1];
              const Tensor& v = arguments[2];
              const Tensor out = attention(q, k, v, options_of(c, has_extra(c) ? arguments.back() : Tensor()));
              if (!c.backward) return {out};
              const Tensor loss = sum(cast(out, DType::kF32) * cast(arguments[3], DType::kF32));
              const std::array<Tensor, 3> wrt = {q, k, v};
              const std::vector<Tensor> by_operand = gradients(loss, wrt);
              return {out, by_operand[0], by_operand[1], by_operand[2]};
            });
            // The step owns the program.
            return [step, program = &step->prepare(types), inputs, outputs] { program->run_recorded(inputs, outputs); };
          }};
}

namespace {

// All but what is measured.
Measurement describe_attention(const AttentionCase& c, const AttentionSettings& settings, const std::string& provider,
                               const std::optional<DevicePeak>& peak) {
  Measurement m;
  m.benchmark = "attention";
  m.group = c.group();
  m.workload = c.workload() + inputs_suffix(settings.inputs);
  m.size = static_cast<double>(c.length);
  m.dtype = std::string(dtype_name(c.dtype));
  m.provider = provider;
  m.work = attention_flops(c);
  m.unit = "TFLOP/s";
  if (peak) {
    m.peak = peak->tflops(dtype_name(c.dtype));
    m.peak_source = peak->source;
  }
  m.details["inputs"] = describe_inputs(settings.inputs);
  if (c.width_of_values() == c.head_dim) {
    m.details["FLOP formula"] = c.backward
                                    ? "3.5 x 4 B H T T D density: forward 4 B H T T D density, backward 2.5 x that"
                                    : "4 B H T T D density (with backward 2.5 x that more)";
  } else {
    m.details["FLOP formula"] =
        c.backward
            ? "2 B H T T (4 D + 3 V) density: forward 2 B H T T (D + V) density, backward 2 B H T T (3 D + 2 V) density"
            : "2 B H T T (D + V) density (with backward 2 B H T T (3 D + 2 V) density more)";
  }
  m.details["density"] = fmt::format("{:.6f} of all pairs of query and key", mask_density(c));
  if (c.pattern == AttentionPattern::kDocument)
    m.details["documents"] = "5, 3, 4, 1, 2 and 1 sixteenths of a sequence, causal within each";
  return m;
}

}  // namespace

std::vector<Measurement> run_attention(Device& device, const AttentionCase& c,
                                       const std::vector<AttentionProvider>& providers,
                                       const AttentionSettings& settings, const std::optional<DevicePeak>& peak,
                                       std::vector<std::string>& skipped) {
  CAUSEWAY_CHECK(&device == &Context::current()->device());
  check_heads(c, "bench attention");
  const auto operand = [&](int64_t heads, int64_t width, int64_t seed) {
    return draw_inputs({c.batch, c.length, heads, width}, c.dtype, settings.inputs, seed);
  };
  Tensor q, k, v, dout, extra;
  try {
    q = operand(c.heads, c.head_dim, 1);
    k = operand(c.key_heads, c.head_dim, 2);
    v = operand(c.key_heads, c.width_of_values(), 3);
    if (c.backward) dout = operand(c.heads, c.width_of_values(), 4);
    if (has_extra(c)) extra = make_extra(c);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    skipped.push_back(fmt::format("{} {}: {}", c.workload(), dtype_name(c.dtype), error.what()));
    return {};
  }
  AttentionBuffers inputs;
  inputs.q = q.buffer().data();
  inputs.k = k.buffer().data();
  inputs.v = v.buffer().data();
  if (c.backward) inputs.dout = dout.buffer().data();
  if (has_extra(c)) inputs.extra = extra.buffer().data();
  const AttentionReference reference(device, c, inputs);

  std::vector<Measurement> measurements;
  std::vector<TimedWork> work;
  std::vector<AttentionBuffers> results;
  std::vector<DeviceBuffer> memory;
  std::vector<double> worst;
  for (const AttentionProvider& provider : providers) {
    AttentionBuffers buffers = inputs;
    try {
      const size_t of_queries = q.buffer().bytes, of_keys = k.buffer().bytes, of_values = v.buffer().bytes;
      const auto allocate = [&](size_t bytes) {
        memory.push_back(device.allocate(bytes, true));
        return memory.back().data();
      };
      buffers.out = allocate(of_queries / static_cast<size_t>(c.head_dim) * static_cast<size_t>(c.width_of_values()));
      if (c.backward) {
        buffers.dq = allocate(of_queries);
        buffers.dk = allocate(of_keys);
        buffers.dv = allocate(of_values);
      }
      work.push_back(provider.prepare(c, buffers));
    } catch (const Error& error) {
      skipped.push_back(fmt::format("{}: {} {}: {}", provider.name, c.workload(), dtype_name(c.dtype), error.what()));
      continue;
    }
    results.push_back(buffers);
    measurements.push_back(describe_attention(c, settings, provider.name, peak));
    work.back()();
    reference.check_rows(results.back(), worst.emplace_back(0));
    reference.check_sums(results.back(), worst.back());
  }
  std::vector<TimedRounds> timed =
      time_alternately(device, work, settings.timing, [&](size_t i) { reference.check_rows(results[i], worst[i]); });
  for (size_t i = 0; i < measurements.size(); ++i) {
    Measurement& m = measurements[i];
    m.rounds = std::move(timed[i].seconds);
    m.clock_mhz = std::move(timed[i].clock_mhz);
    reference.check_sums(results[i], worst[i]);
    m.correct = worst[i] <= 1;
    m.check =
        fmt::format("{} rows of out{} against a softmax in double{}: {:.2g} % of the error allowed", reference.rows(),
                    c.backward ? " and dq" : "", c.backward ? ", sums over all keys of dk and dv" : "", 100 * worst[i]);
  }
  return measurements;
}

}  // namespace causeway::bench
