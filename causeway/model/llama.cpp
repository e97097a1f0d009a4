// Llama (Touvron et al., arXiv 2302.13971; GQA as in 2307.09288).
#include "causeway/model/llama.h"

#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

constexpr char kRopeTheta[] = "rope_theta";
constexpr char kRopeFactor[] = "rope_factor";
constexpr char kRopeLowFrequency[] = "rope_low_frequency_factor";
constexpr char kRopeHighFrequency[] = "rope_high_frequency_factor";
constexpr char kRopeLength[] = "rope_original_length";

// A factor of 1 stretches nothing.
RotaryScaling scaling_of(const ModelConfig& c) {
  return {c.own_number(kRopeFactor), c.own_number(kRopeLowFrequency), c.own_number(kRopeHighFrequency),
          static_cast<double>(c.own_integer(kRopeLength))};
}

std::vector<ModelKey> rope_scaling_keys() {
  ModelKey factor =
      positive_key(kRopeFactor, 1.0, "by how much long rotary wavelengths are stretched, as in Llama 3.1; 1: not");
  factor.problem = [](const ModelValue& value) -> std::string {
    return std::get<double>(value) >= 1 ? "" : "must be at least 1";
  };
  return {
      std::move(factor),
      positive_key(kRopeLowFrequency, 1.0, "rope_original_length over this: wavelengths from there on are stretched"),
      positive_key(kRopeHighFrequency, 4.0, "rope_original_length over this: wavelengths up to there stay"),
      size_key(kRopeLength, 8192, 1, int64_t{1} << 24, "longest sequence before the stretching")};
}

int64_t count_llama_parameters(const ModelConfig& c) {
  const int64_t embeddings = c.vocabulary_size * c.width * (c.tie_embeddings ? 1 : 2);
  const int64_t query = c.heads * c.head_dim, key = c.kv_heads * c.head_dim;
  const int64_t matrices = 2 * c.width * query + 2 * c.width * key + 3 * c.width * c.ffn_width;
  const int64_t norms = 2 * c.width;
  return embeddings + c.layers * (matrices + norms) + c.width;
}

void check_positions(const ModelConfig& c) {
  if (c.head_dim % 2 != 0)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} is odd; rotary positions need pairs", c.head_dim),
                "model.head_dim");
  const RotaryScaling scaling = scaling_of(c);
  if (scaling.low_frequency_factor >= scaling.high_frequency_factor)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} is not below model.rope_high_frequency_factor, {}", scaling.low_frequency_factor,
                            scaling.high_frequency_factor),
                "model.rope_low_frequency_factor");
  if (scaling.factor != 1) return;
  for (const ModelKey& key : rope_scaling_keys())
    if (key.name != kRopeFactor && c.own.contains(key.name) && c.own.at(key.name) != key.default_value)
      throw Error(ErrorKind::kInvalidArgument, "has no effect at model.rope_factor 1, which stretches nothing",
                  "model." + key.name, "Delete the key, or give model.rope_factor.");
}

// The kind of scaling, under its name of today or that before transformers 4.43.
std::string read_rope_kind(HuggingFaceConfig& rope) {
  std::string older, kind;
  rope.optional("type", older, "");
  rope.optional("rope_type", kind, "");
  if (!older.empty() && !kind.empty() && older != kind)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("rope_type = \"{}\" and type = \"{}\"", kind, older),
                "config.json", "They are two names of one thing: delete one of them.");
  return !kind.empty() ? kind : !older.empty() ? older : "default";
}

// What kind of scaling there is, if any: Llama 3's alone. `original_length`: where the object does not say.
void list_scaling(HuggingFaceConfig& rope, RotaryScaling& scaling, int64_t original_length) {
  constexpr char kKind[] = "llama3", kNone[] = "default";
  if (!rope.is_reading() && scaling.factor == 1) return rope.written("rope_type", kNone);
  rope.expected("partial_rotary_factor", 1.0);
  // What other kinds have.
  rope.not_carried({"attention_factor", "beta_fast", "beta_slow", "long_factor", "mrope_section", "mscale",
                    "mscale_all_dim", "short_factor", "truncate"});
  if (rope.is_reading()) {
    const std::string kind = read_rope_kind(rope);
    if (kind == kNone)
      return rope.not_carried({"factor", "high_freq_factor", "low_freq_factor", "original_max_position_embeddings"});
    if (kind != kKind)
      throw Error(ErrorKind::kUnsupported, fmt::format("rope_type = \"{}\"", kind), "config.json",
                  fmt::format("Only \"{}\" and \"{}\" are implemented.", kNone, kKind));
  }
  rope.written("rope_type", kKind);
  rope.required("factor", scaling.factor);
  rope.required("low_freq_factor", scaling.low_frequency_factor);
  rope.required("high_freq_factor", scaling.high_frequency_factor);
  auto length = static_cast<int64_t>(scaling.original_context);
  rope.optional("original_max_position_embeddings", length, original_length);
  scaling.original_context = static_cast<double>(length);
}

// The length before the stretching, where transformers 5 finds it outside of the object: there it counts more than
// within, which transformers 4 does not do.
int64_t list_original_length(HuggingFaceConfig& file, const ModelConfig& c, const char* rope_key) {
  constexpr char kKey[] = "original_max_position_embeddings";
  file.without_effect({{kKey, nullptr}});
  int64_t length = c.max_sequence_length;
  const auto outside = file.json().find(kKey);
  if (!file.is_reading() || outside == file.json().end() || outside->is_null()) return length;
  file.optional(kKey, length, length);
  const auto rope = file.json().find(rope_key);
  if (rope != file.json().end() && rope->is_object() && rope->contains(kKey) && (*rope)[kKey] != length)
    throw Error(ErrorKind::kUnsupported, fmt::format("{} = {} beside another in {}", kKey, length, rope_key),
                "config.json", "Give one of them: versions of transformers differ in which they take.");
  return length;
}

// What rotary positions are, where transformers 4 has it and where transformers 5 does. Where a file has both, it is
// the former that counts, in either version.
void list_rope(HuggingFaceConfig& file, ModelConfig& c, double usual_theta) {
  constexpr char kOlder[] = "rope_scaling", kNewer[] = "rope_parameters";
  double theta = c.own_number(kRopeTheta);
  file.optional("rope_theta", theta, usual_theta);
  file.expected("partial_rotary_factor", 1.0);
  RotaryScaling scaling = scaling_of(c);
  const auto older = file.json().find(kOlder);
  const bool is_older = file.is_reading() && older != file.json().end() && older->is_object() && !older->empty();
  const int64_t original_length = list_original_length(file, c, is_older ? kOlder : kNewer);
  const auto list_object = [&](const char* key, bool with_theta) {
    file.object(key, [&](HuggingFaceConfig& rope) {
      list_scaling(rope, scaling, original_length);
      if (with_theta) rope.optional("rope_theta", theta, theta);
      rope.refuse_unknown(key);
    });
  };
  if (file.is_reading() ? is_older : scaling.factor != 1)
    list_object(kOlder, file.is_reading());
  else if (file.is_reading() && older != file.json().end() && !older->is_object())
    file.expected(kOlder, nullptr);
  if (!is_older) list_object(kNewer, true);
  file.not_carried({kOlder, kNewer});
  if (scaling.factor == 1) scaling = {.factor = 1};
  c.own[kRopeTheta] = theta;
  c.own[kRopeFactor] = scaling.factor;
  c.own[kRopeLowFrequency] = scaling.low_frequency_factor;
  c.own[kRopeHighFrequency] = scaling.high_frequency_factor;
  c.own[kRopeLength] = static_cast<int64_t>(scaling.original_context);
}

// transformers computes by the window alone; layers of other kinds belong to other classes of it.
void check_layer_types(HuggingFaceConfig& file, const ModelConfig& c, int64_t window) {
  const std::optional<std::vector<std::string>> types = list_layer_types(file, c);
  if (!types) return;
  const std::string expected = window > 0 ? "sliding_attention" : "full_attention";
  for (const std::string& type : *types)
    if (type != expected)
      throw Error(ErrorKind::kUnsupported, fmt::format("layer_types has {}", nlohmann::json(type).dump()),
                  "config.json",
                  fmt::format("With this sliding_window only \"{}\" in all layers is implemented.", expected));
}

void list_own_llama_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.expected("attention_bias", false);
  file.expected("mlp_bias", false);
  file.without_effect({{"pretraining_tp", 1}});  // in how many pieces GEMMs are computed
  list_llama_entries(file, c, {});
  list_full_attention(file, c);
}

}  // namespace

Llama::Llama(const ModelConfig& c, const ModelPart& part, const LlamaVariant& variant, const NewWeights& weights)
    : LanguageModel(c, part), variant_(variant), experts_(expert_shape(c)) {
  const ParameterDim vocabulary{c.vocabulary_size, LogicalDim::kVocabulary}, width{c.width, LogicalDim::kWidth};
  const ParameterDim rows{c.vocabulary_size, c.tie_embeddings ? LogicalDim::kVocabulary : LogicalDim::kLookup};
  if (part.holds_embedding() || (c.tie_embeddings && part.holds_head()))
    embedding_ = declare("model.embed_tokens.weight", {rows, width}, Initial::kNormal, weights);
  for (int64_t i = 0; i < c.layers; ++i) blocks_.push_back(begin_layer(i) ? declare_layer(i, weights) : Block());
  const RotaryScaling scaling = scaling_of(c);
  frequencies_ = rotary_frequencies(c.head_dim, c.own_number(kRopeTheta),
                                    scaling.factor == 1 ? std::nullopt : std::optional(scaling));
  if (!begin_head()) return;
  final_norm_ = declare_norm("model.norm", width, weights);
  if (c.score_head) return;
  output_ = c.tie_embeddings ? embedding_ : declare("lm_head.weight", {vocabulary, width}, Initial::kNormal, weights);
}

Llama::Block Llama::declare_layer(int64_t layer, const NewWeights& weights) {
  const ModelConfig& c = config();
  const ParameterDim width{c.width, LogicalDim::kWidth}, query{c.heads * c.head_dim, LogicalDim::kHeads},
      key{c.kv_heads * c.head_dim, LogicalDim::kKeyHeads}, ffn{c.ffn_width, LogicalDim::kFfn};
  const std::string name = fmt::format("model.layers.{}.", layer);
  const auto matrix = [&](const char* part, ParameterDim out, ParameterDim in, Initial initial = Initial::kNormal) {
    return declare_matrix(name + part, out, in, initial, weights);
  };
  const auto bias = [&](const char* part, ParameterDim out) {
    return variant_.attention_biases ? declare(name + part + ".bias", {out}, Initial::kZeros, weights) : Tensor();
  };
  const auto norm = [&](const std::string& part) {
    return part.empty() ? Tensor() : declare_norm(name + part, width, weights);
  };
  Block block;
  block.q = matrix("self_attn.q_proj", query, width);
  block.q_bias = bias("self_attn.q_proj", query);
  block.k = matrix("self_attn.k_proj", key, width);
  block.k_bias = bias("self_attn.k_proj", key);
  block.v = matrix("self_attn.v_proj", key, width);
  block.v_bias = bias("self_attn.v_proj", key);
  block.attention_output = matrix("self_attn.o_proj", width, query, Initial::kResidualNormal);
  if (variant_.query_key_norm != QueryKeyNorm::kNone) {
    const bool of_heads = variant_.query_key_norm == QueryKeyNorm::kHead;
    const ParameterDim head{c.head_dim, LogicalDim::kHead};
    block.q_norm = declare_norm(name + "self_attn.q_norm", of_heads ? head : query, weights);
    block.k_norm = declare_norm(name + "self_attn.k_norm", of_heads ? head : key, weights);
  }
  if (experts_ && experts_->is_sparse(layer)) {
    declare_experts(block, name, weights);
  } else {
    block.gate = matrix("mlp.gate_proj", ffn, width);
    block.up = matrix("mlp.up_proj", ffn, width);
    block.down = matrix("mlp.down_proj", width, ffn, Initial::kResidualNormal);
  }
  block.norm_before_attention = norm(variant_.norm_before_attention);
  block.norm_after_attention = norm(variant_.norm_after_attention);
  block.norm_before_mlp = norm(variant_.norm_before_mlp);
  block.norm_after_mlp = norm(variant_.norm_after_mlp);
  return block;
}

void Llama::declare_experts(Block& block, const std::string& layer, const NewWeights& weights) {
  const ParameterDim width{config().width, LogicalDim::kWidth}, count{experts_->experts, LogicalDim::kExperts},
      inner{experts_->width, LogicalDim::kFfn}, one{1, LogicalDim::kExperts};
  const std::string name = fmt::format("{}{}.", layer, variant_.experts.block);
  if (weights.adapter.has_quantized_base())
    throw Error(ErrorKind::kUnsupported, "the weights of experts are not yet quantized", "lora.base",
                "Set lora.base=unquantized.");
  const auto matrices = [&](const std::string& part, ExpertMatrix which, ParameterDim out, ParameterDim in,
                            Initial initial) {
    return declare_experts_matrix(fmt::format("{}experts.{}.weight", name, part), which, {count, out, in}, initial,
                                  weights);
  };
  block.experts.router = declare(name + "gate.weight", {count, width}, Initial::kNormal, weights);
  block.experts.gate = matrices(variant_.experts.gate, ExpertMatrix::kGate, inner, width, Initial::kNormal);
  block.experts.up = matrices(variant_.experts.up, ExpertMatrix::kUp, inner, width, Initial::kNormal);
  block.experts.down = matrices(variant_.experts.down, ExpertMatrix::kDown, width, inner, Initial::kResidualNormal);
  if (experts_->shared_width == 0) return;
  const ParameterDim shared{experts_->shared_width, LogicalDim::kFfn};
  const std::string expert = name + "shared_expert.";
  block.gate = declare_matrix(expert + "gate_proj", shared, width, Initial::kNormal, weights);
  block.up = declare_matrix(expert + "up_proj", shared, width, Initial::kNormal, weights);
  block.down = declare_matrix(expert + "down_proj", width, shared, Initial::kResidualNormal, weights);
  block.shared_expert_gate = declare(name + "shared_expert_gate.weight", {one, width}, Initial::kNormal, weights);
}

Tensor Llama::declare_norm(const std::string& name, ParameterDim dim, const NewWeights& weights) {
  return declare(name + ".weight", {dim}, variant_.norm_weights_less_one ? Initial::kZeros : Initial::kOnes, weights);
}

Tensor Llama::embed_tokens(const Tensor& tokens) const { return look_up(tokens, embedding_); }

Tensor Llama::gated(const Tensor& gate, const Tensor& up) const { return swiglu(gate, up); }

AttentionForm Llama::attention_form(int64_t) const { return {.window = variant_.window}; }

Tensor Llama::embed(const ForwardInputs& inputs) const { return drop(embed_tokens(inputs.tokens), inputs); }

Tensor Llama::run_layer(int64_t layer, const Tensor& x, const ForwardInputs& inputs) const {
  const Tensor mixed = residual_stream(x + attention(x, layer, inputs));
  return residual_stream(mixed + mlp(mixed, blocks_[static_cast<size_t>(layer)], inputs));
}

Tensor Llama::last_norm(const Tensor& x) const { return norm(x, final_norm_); }

Tensor Llama::norm(const Tensor& x, const Tensor& weight) const {
  return rms_norm(x, variant_.norm_weights_less_one ? weight + 1.0 : weight, config().norm_epsilon);
}

Tensor Llama::norm_before(const Tensor& x, const Tensor& weight) const {
  return weight.defined() ? norm(x, weight) : x;
}

Tensor Llama::norm_after(const Tensor& x, const Tensor& weight) const {
  return weight.defined() ? norm(residual_stream(x), weight) : x;
}

Tensor Llama::attention(const Tensor& x, int64_t layer, const ForwardInputs& inputs) const {
  const Scope scope("attention");
  const Block& block = blocks_[static_cast<size_t>(layer)];
  const Tensor normed = norm_before(x, block.norm_before_attention);
  const auto project = [&](const Matrix& weight, const Tensor& bias, const Tensor& norm_weight, int64_t heads) {
    Tensor projected = multiply(normed, weight, inputs);
    if (bias.defined()) projected = projected + bias;
    if (!norm_weight.defined()) return split_heads(projected, heads);
    return variant_.query_key_norm == QueryKeyNorm::kHead ? norm(split_heads(projected, heads), norm_weight)
                                                          : split_heads(norm(projected, norm_weight), heads);
  };
  // Over cp keys and values are gathered while queries are computed, and their gradients exchanged beside those of
  // queries, which the backward pass comes to in the opposite order.
  const Tensor k =
      rotary_embedding(project(block.k, block.k_bias, block.k_norm, config().kv_heads), frequencies_, inputs.positions);
  const Tensor v = project(block.v, block.v_bias, {}, config().kv_heads);
  const Tensor q =
      rotary_embedding(project(block.q, block.q_bias, block.q_norm, config().heads), frequencies_, inputs.positions);
  const Tensor mixed = attend(q, k, v, inputs, attention_form(layer));
  return drop(norm_after(multiply(mixed, block.attention_output, inputs), block.norm_after_attention), inputs);
}

Tensor Llama::mlp(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
  const Scope scope("mlp");
  const Tensor normed = norm_before(x, block.norm_before_mlp);
  const Tensor y = block.experts.router.defined() ? mix(normed, block, inputs) : dense_mlp(normed, block, inputs);
  return drop(norm_after(y, block.norm_after_mlp), inputs);
}

Tensor Llama::dense_mlp(const Tensor& normed, const Block& block, const ForwardInputs& inputs) const {
  const Tensor wide = gated(multiply(normed, block.gate, inputs), multiply(normed, block.up, inputs));
  return multiply(wide, block.down, inputs);
}

Tensor Llama::mix(const Tensor& normed, const Block& block, const ForwardInputs& inputs) const {
  const auto between = [this](const Tensor& gate, const Tensor& up) { return gated(gate, up); };
  const Tensor routed = mix_experts(normed, block.experts, *experts_, between, inputs.routing);
  if (!block.shared_expert_gate.defined()) return routed;
  const Scope scope("shared_expert");
  return routed + sigmoid(linear(normed, block.shared_expert_gate)) * dense_mlp(normed, block, inputs);
}

ModelKey sliding_window_key() {
  return size_key(kSlidingWindow, 0, 0, int64_t{1} << 24, "positions a query sees, itself included; 0: all");
}

void list_llama_entries(HuggingFaceConfig& file, ModelConfig& c, const LlamaDefaults& defaults) {
  file.fixed("hidden_act", {"silu", "swish"});
  list_llama_sizes(file, c, defaults);
}

void list_llama_sizes(HuggingFaceConfig& file, ModelConfig& c, const LlamaDefaults& defaults) {
  file.optional("hidden_size", c.width, defaults.width);
  file.optional("num_hidden_layers", c.layers, defaults.layers);
  file.optional("num_attention_heads", c.heads, defaults.heads);
  file.optional("num_key_value_heads", c.kv_heads, defaults.kv_heads, 0);
  file.optional("head_dim", c.head_dim, defaults.head_dim, 0);
  file.optional("intermediate_size", c.ffn_width, defaults.ffn_width);
  file.optional("max_position_embeddings", c.max_sequence_length, defaults.max_sequence_length);
  file.optional("rms_norm_eps", c.norm_epsilon, defaults.norm_epsilon);
  list_rope(file, c, defaults.rope_theta);
  file.training_only({{"attention_dropout", 0.0}});
  file.without_effect({{"use_cache", true}});
}

void list_experts(HuggingFaceConfig& file, ModelConfig& c, const ExpertDefaults& defaults) {
  // transformers 5 has two names of it, and writes one or the other.
  constexpr char kLocal[] = "num_local_experts", kPlain[] = "num_experts";
  const char* const key = defaults.writes_local ? kLocal : kPlain;
  file.alias(defaults.writes_local ? kPlain : kLocal, key);
  int64_t experts = c.own_integer(kExperts), per_token = c.own_integer(kExpertsPerToken);
  file.optional(key, experts, defaults.experts);
  file.optional("num_experts_per_tok", per_token, defaults.per_token);
  c.own[kExperts] = experts;
  c.own[kExpertsPerToken] = per_token;
  // Of the loss of training, which a recipe says.
  file.without_effect({{"output_router_logits", false}, {"router_aux_loss_coef", defaults.balance_loss}});
}

void list_qwen_experts(HuggingFaceConfig& file, ModelConfig& c, const ExpertDefaults& defaults, int64_t expert_width) {
  list_experts(file, c, defaults);
  int64_t width = c.own_integer(kExpertWidth), step = c.own_integer(kSparseStep);
  bool normalized = c.own_truth(kNormalizedWeights);
  file.optional("moe_intermediate_size", width, expert_width);
  file.optional("norm_topk_prob", normalized, false);
  file.optional("decoder_sparse_step", step, 1);
  c.own[kExpertWidth] = width;
  c.own[kNormalizedWeights] = normalized;
  c.own[kSparseStep] = step;
  constexpr char kDense[] = "mlp_only_layers";
  nlohmann::json dense = nlohmann::json::array();
  for (int64_t layer = 0; layer < c.own_integer(kFirstDenseLayers); ++layer) dense.push_back(layer);
  file.written(kDense, dense);
  if (file.is_reading()) {
    const auto given = file.json().find(kDense);
    int64_t first = 0;
    if (given != file.json().end() && !given->is_null()) {
      for (const nlohmann::json& layer : *given) first += layer == first ? 1 : 0;
      if (!given->is_array() || static_cast<size_t>(first) != given->size())
        throw Error(ErrorKind::kUnsupported, fmt::format("{} = {}", kDense, given->dump()), "config.json",
                    "Only the first layers, in order, can be dense; decoder_sparse_step makes others so.");
    }
    c.own[kFirstDenseLayers] = first;
    // Layers with windows are other ones in each version of transformers.
    file.expected("use_sliding_window", false);
    const std::optional<std::vector<std::string>> types = list_layer_types(file, c);
    for (const std::string& type : types.value_or(std::vector<std::string>()))
      if (type != "full_attention")
        throw Error(ErrorKind::kUnsupported, fmt::format("layer_types has {}", nlohmann::json(type).dump()),
                    "config.json", "Only full attention in all layers is implemented.");
  }
  file.written("use_sliding_window", false);
  file.without_effect({{kSlidingWindow, 4096}, {"max_window_layers", 28}});
}

void list_one_window(HuggingFaceConfig& file, ModelConfig& c, int64_t absent) {
  int64_t window = c.own_integer(kSlidingWindow);
  file.optional_or_null(kSlidingWindow, window, absent);
  c.own[kSlidingWindow] = window;
  if (file.is_reading()) check_layer_types(file, c, window);
}

void list_qwen_windows(HuggingFaceConfig& file, ModelConfig& c) {
  constexpr char kUses[] = "use_sliding_window", kTypes[] = "layer_types";
  if (!file.is_reading()) return file.written(kUses, false);
  bool uses = false;
  file.optional(kUses, uses, false);
  int64_t window = 0, from_layer = 0;
  constexpr int64_t kNone = -1;
  file.optional(kSlidingWindow, window, 4096, kNone);
  file.optional("max_window_layers", from_layer, 28);
  file.without_effect({{kSlidingWindow, 4096}, {"max_window_layers", 28}});
  const std::optional<std::vector<std::string>> types = list_layer_types(file, c);
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorKind::kUnsupported, what, "config.json", "Only full attention in all layers is implemented.");
  };
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    if (!types) {
      if (uses && window != kNone && layer >= from_layer)
        refuse(fmt::format("{} = true with a window in the layers from {} on", kUses, from_layer));
    } else if (const std::string& type = (*types)[static_cast<size_t>(layer)]; type != "full_attention") {
      refuse(fmt::format("{} has {}{}", kTypes, nlohmann::json(type).dump(),
                         uses ? "" : fmt::format(", though {} is false", kUses)));
    }
  }
}

ModelFamily llama_family() {
  ModelFamily family;
  family.name = "llama";
  family.other_names = {"llama2",    "llama3", "llama3.1",  "llama3.2", "llama3.3", "llama_2", "llama_3",
                        "codellama", "vicuna", "tinyllama", "smollm",   "smollm2",  "yi",      "alpaca"};
  family.keys = rope_scaling_keys();
  family.keys.insert(family.keys.begin(), positive_key(kRopeTheta, 10000.0, "base of the rotary frequencies"));
  family.grouped_queries = true;
  family.any_head_dim = true;
  family.usual_ffn_width = [](int64_t width) { return (8 * width / 3 + 63) / 64 * 64; };
  family.check = check_positions;
  family.parameter_count = count_llama_parameters;
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Llama>(config, part, LlamaVariant{}, weights);
  };
  family.hugging_face = {.model_type = "llama",
                         .architecture = "LlamaForCausalLM",
                         .entries = list_own_llama_entries,
                         .usual_vocabulary = 32000,
                         .optional_prefix = "model.",
                         .embedding = "model.embed_tokens.weight",
                         .constants = {"rotary_emb.inv_freq"}};
  return family;
}

ModelFamily llama_family_with_experts() {
  ModelFamily family = llama_family();
  family.other_names = {};
  family.keys.push_back(experts_key());
  family.keys.push_back(experts_per_token_key());
  family.settle = settle_experts;
  family.check = [llama = family.check](const ModelConfig& c) {
    llama(c);
    check_experts(c);
  };
  family.parameter_count = [llama = family.parameter_count](const ModelConfig& c) {
    return llama(c) + added_by_experts(c);
  };
  return family;
}

}  // namespace causeway::model
