#include "causeway/model/adapter.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/model/family.h"
#include "causeway/model/language_model.h"
#include "causeway/model/quantized_weight.h"
#include "causeway/passes/recompute.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/step.h"

namespace causeway::model {

double AdapterConfig::scale() const {
  const auto r = static_cast<double>(rank);
  return (alpha == 0 ? 2 * r : alpha) / (kind == AdapterKind::kRslora ? std::sqrt(r) : r);
}

Tensor Matrix::value() const { return quantized ? quantized->dequantize() : weight; }

std::vector<std::string> target_patterns(const std::string& targets) {
  std::vector<std::string> patterns;
  for (size_t from = 0; from <= targets.size();) {
    const size_t to = std::min(targets.find(',', from), targets.size());
    std::string pattern = targets.substr(from, to - from);
    std::erase(pattern, ' ');
    if (!pattern.empty()) patterns.push_back(std::move(pattern));
    from = to + 1;
  }
  return patterns;
}

bool matches_target(const std::string& pattern, const std::string& matrix) {
  if (pattern == kAllLinear || pattern == matrix || matrix.ends_with("." + pattern)) return true;
  return pattern.find_first_of("*?") != std::string::npos && ::fnmatch(pattern.c_str(), matrix.c_str(), 0) == 0;
}

namespace {

// As the weight lies: weight + scale b a.
Tensor sum_of(const Matrix& matrix, const AdapterConfig& config) {
  const Tensor a = cast(matrix.a, DType::kF32), b = cast(matrix.b, DType::kF32);
  const Tensor product = matrix.is_input_first() ? matmul(transpose(a), transpose(b)) : matmul(b, a);
  return cast(matrix.value(), DType::kF32) + product * config.scale();
}

Tensor lengths_of_rows(const Tensor& sum_of_both, bool input_first) {
  return sqrt(sum(square(sum_of_both), {input_first ? 0 : 1}));
}

}  // namespace

Tensor row_lengths(const Matrix& matrix, const AdapterConfig& config) {
  return lengths_of_rows(sum_of(matrix, config), matrix.is_input_first());
}

Tensor merged_weight(const Matrix& matrix, const AdapterConfig& config) {
  const Tensor whole = sum_of(matrix, config);
  if (!matrix.magnitude.defined()) return whole;
  const Tensor factor = matrix.magnitude / lengths_of_rows(whole, matrix.is_input_first());
  return whole * (matrix.is_input_first() ? factor : unsqueeze(factor, 1));
}

Tensor computed_merged_weight(const Matrix& matrix, const AdapterConfig& config) {
  Step step([&](const std::vector<Tensor>&) -> std::vector<Tensor> {
    const Tensor whole = matrix.has_adapter() ? merged_weight(matrix, config) : cast(matrix.value(), DType::kF32);
    return {matrix.input_first == matrix.is_input_first() ? whole : transpose(whole)};
  });
  return step({}).front();
}

Tensor multiply(const Tensor& x, const Matrix& matrix, const AdapterConfig& config, const Tensor& dropout_key) {
  const Tensor weight = matrix.value();
  const auto by_weight = [&](const Tensor& given) {
    return matrix.is_input_first() ? matmul(given, weight) : linear(given, weight);
  };
  const Tensor product = by_weight(x);
  if (!matrix.has_adapter()) return product;
  const bool drops = config.dropout > 0 && dropout_key.defined();
  const Tensor given = drops ? dropout(x, config.dropout, dropout_key) : x;
  // The scale is that of the smaller product.
  const Tensor added = linear(linear(given, matrix.a) * config.scale(), matrix.b);
  if (!matrix.magnitude.defined()) return product + added;
  // The length counts as a constant (section 4.3 of the paper).
  const Tensor factor = matrix.magnitude / stop_gradient(row_lengths(matrix, config));
  if (!drops) return factor * (product + added);
  return product + (factor - 1.0) * by_weight(given) + factor * added;
}

void require_targets(const LanguageModel& model) {
  const ModelConfig& config = model.config();
  if (!model.adapter().is_used()) return;
  std::vector<std::string> names, ends;
  // All layers have what the layers of a part have.
  for (const Matrix& matrix : model.matrices()) {
    const std::string_view block = passes::block_of_scope(matrix.name);
    const std::string before(block.substr(0, block.rfind('.') + 1)), behind = matrix.name.substr(block.size());
    for (int64_t layer = 0; layer < config.layers; ++layer)
      names.push_back(fmt::format("{}{}{}", before, layer, behind));
    const std::string end = matrix.name.substr(matrix.name.rfind('.') + 1);
    if (std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
  }
  for (const std::string& pattern : target_patterns(model.adapter().targets)) {
    for (const Parameter& parameter : model.parameters()) {
      const std::string name = parameter.name.substr(0, parameter.name.rfind('.'));
      if (pattern != kAllLinear && parameter.of_experts != ExpertMatrix::kNone && matches_target(pattern, name))
        throw Error(ErrorKind::kUnsupported,
                    fmt::format("'{}' names {}, and weights of experts have no adapters yet", pattern, name),
                    "lora.targets",
                    "Name other matrices by more of their names, or say all-linear for all that have adapters.");
    }
    if (std::ranges::any_of(names, [&](const std::string& name) { return matches_target(pattern, name); })) continue;
    const std::string nearest = nearest_name(pattern, ends);
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("'{}' names no matrix in the layers of {}", pattern, config.family), "lora.targets",
                fmt::format("{}There are {}, or all-linear for all of them.",
                            nearest.empty() ? "" : fmt::format("Did you mean {}? ", nearest), list_names(ends)));
  }
}

std::string describe_adapters(const LanguageModel& model) {
  const AdapterConfig& config = model.adapter();
  if (!config.is_used()) return {};
  const auto count = std::ranges::count_if(model.matrices(), &Matrix::has_adapter);
  int64_t elements = 0;
  for (const Parameter& parameter : model.parameters())
    if (parameter.is_adapter) elements += element_count(parameter.tensor.shape()).constant();
  const std::string base = config.has_quantized_base() ? fmt::format(", the base in {}", config.base) : "";
  return fmt::format("{} of rank {} on {} matrices, {} parameters{}", config.kind, config.rank, count, elements, base);
}

void merge_adapters(const LanguageModel& adapted, LanguageModel& model) {
  std::vector<std::byte> bytes;
  for (const Parameter& parameter : model.parameters()) {
    const auto matrix = std::ranges::find_if(adapted.matrices(), [&](const Matrix& one) {
      return (one.has_adapter() || one.quantized) && one.name + ".weight" == parameter.name;
    });
    Tensor target = parameter.tensor, source = adapted.parameter(parameter.name).tensor;
    if (matrix != adapted.matrices().end()) source = computed_merged_weight(*matrix, adapted.adapter());
    bytes.resize(static_cast<size_t>(source.local_bytes()));
    source.read_bytes(bytes);
    target.write_bytes(bytes);
  }
}

void initialize_adapters(LanguageModel& model, uint64_t seed) {
  std::vector<Matrix> matrices;
  std::vector<Tensor> keys;
  for (const Matrix& matrix : model.matrices()) {
    if (!matrix.has_adapter()) continue;
    matrices.push_back(matrix);
    keys.push_back(random_key(static_cast<int64_t>(seed), static_cast<int64_t>(hash_text(matrix.name).low)));
  }
  if (matrices.empty()) return;
  Step step([&](const std::vector<Tensor>&) -> std::vector<Tensor> {
    for (size_t i = 0; i < matrices.size(); ++i) {
      Matrix& matrix = matrices[i];
      const RandomStreams streams(0);
      const double bound = 1 / std::sqrt(static_cast<double>(matrix.a.size(1).constant()));
      matrix.a.assign(cast((rand(matrix.a.shape(), keys[i]) * 2.0 - 1.0) * bound, matrix.a.dtype()));
      matrix.b.assign(zeros_like(matrix.b));
      if (matrix.magnitude.defined())
        matrix.magnitude.assign(lengths_of_rows(cast(matrix.value(), DType::kF32), matrix.is_input_first()));
    }
    return {};
  });
  step.run({});
}

}  // namespace causeway::model
