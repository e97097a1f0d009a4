// Adapters: small matrices that are trained beside matrices of a model which stay as they are (LoRA: Hu et al., arXiv
// 2106.09685; rsLoRA: Kalajdzievski, 2312.03732; DoRA: Liu et al., 2402.09353). Names, shapes, first values and what is
// computed are those of PEFT.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "causeway/base/named_values.h"
#include "causeway/namespaces.h"
#include "causeway/tensor/tensor.h"

namespace causeway::model {

class LanguageModel;
class QuantizedWeight;

inline constexpr char kAllLinear[] = "all-linear";

enum class AdapterKind {
  kLora,    // alpha / rank times B A is added to a matrix
  kRslora,  // alpha / sqrt(rank) times B A
  kDora,    // as LoRA, and every output's row of the sum has a length that is trained by itself
};
constexpr auto named_values(AdapterKind) {
  return std::to_array<NamedValue<AdapterKind>>(
      {{AdapterKind::kLora, "lora"}, {AdapterKind::kRslora, "rslora"}, {AdapterKind::kDora, "dora"}});
}

// How matrices of the layers lie that adapters leave as they are.
enum class BaseWeights {
  kUnquantized,  // in the type that they are multiplied in
  kF8,           // f8e4m3, and for each output an f32: its row's largest magnitude / 448
  kNf4,          // causeway/model/nf4.h
};
constexpr auto named_values(BaseWeights) {
  return std::to_array<NamedValue<BaseWeights>>(
      {{BaseWeights::kUnquantized, "unquantized"}, {BaseWeights::kF8, "f8"}, {BaseWeights::kNf4, "nf4"}});
}

struct AdapterConfig {
  int64_t rank = 0;    // 0: there are no adapters
  double alpha = 0;    // 0: twice the rank
  double dropout = 0;  // of what an adapter is given, in training
  AdapterKind kind = AdapterKind::kLora;
  // Which matrices have one, by patterns between commas. A pattern is the end of a matrix's name from a point on
  // ("q_proj", "mlp.up_proj"), or a whole name with * and ? in it ("model.layers.1?.*"). "all-linear": all matrices of
  // the layers.
  std::string targets = kAllLinear;
  // How the matrices of the layers lie, those without an adapter too.
  BaseWeights base = BaseWeights::kUnquantized;

  bool is_used() const { return rank > 0; }
  bool has_quantized_base() const { return is_used() && base != BaseWeights::kUnquantized; }
  // What B A is multiplied by.
  double scale() const;
  bool operator==(const AdapterConfig&) const = default;
};

// The patterns of AdapterConfig::targets.
std::vector<std::string> target_patterns(const std::string& targets);
// Whether a pattern names a matrix: "model.layers.0.self_attn.q_proj".
bool matches_target(const std::string& pattern, const std::string& matrix);

// A matrix that activations are multiplied by, and its adapter.
struct Matrix {
  std::string name;          // "model.layers.0.self_attn.q_proj"
  Tensor weight;             // [out, in]; undefined where it is quantized
  bool input_first = false;  // the weight is [in, out], in files at least
  // Of an adapter: a [rank, in] and b [out, rank], f32 or bf16, and of DoRA the rows' lengths [out], f32. Undefined
  // without one.
  Tensor a = {}, b = {}, magnitude = {};
  std::shared_ptr<QuantizedWeight> quantized = {};

  bool has_adapter() const { return a.defined(); }
  // What activations are multiplied by: the weight, or what the quantized one is.
  Tensor value() const;
  // Whether that is [in, out].
  bool is_input_first() const { return input_first && !quantized; }
};

// x [..., in] multiplied by a matrix and its adapter: [..., out]. The adapter's dropout draws by `dropout_key`, i64
// [2]; undefined: nothing is dropped.
Tensor multiply(const Tensor& x, const Matrix& matrix, const AdapterConfig& config, const Tensor& dropout_key);

// Throws Error(kInvalidArgument) where a pattern of lora.targets names no matrix of the whole model, of which this may
// be a part.
void require_targets(const LanguageModel& model);

// f32 [out]: how long the rows of weight + scale b a are.
Tensor row_lengths(const Matrix& matrix, const AdapterConfig& config);
// f32, as Matrix::value() lies: what weight and adapter are together, as one matrix.
Tensor merged_weight(const Matrix& matrix, const AdapterConfig& config);

// "lora of rank 16 on 224 matrices, 41943040 parameters, the base in nf4", of the layers that are here; empty where
// there are none.
std::string describe_adapters(const LanguageModel& model);

// Overwrites a model's parameters by what those of `adapted`, a whole model in f32, and their adapters are together; of
// quantized ones by what they are multiplied as.
void merge_adapters(const LanguageModel& adapted, LanguageModel& model);

// Gives adapters their first values, which change nothing of what the model computes: A uniform within 1 / sqrt(in), B
// zero, and the magnitudes of DoRA the lengths of the weights' rows, which are read. A pure function of the seed and
// the matrix' name, the same on every device and mesh.
void initialize_adapters(LanguageModel& model, uint64_t seed);

}  // namespace causeway::model
