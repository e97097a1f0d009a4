// Logits, loss and gradients against an independent implementation: the fixtures of tests/fixtures/parity, made by
// Hugging Face transformers.
//
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "causeway/model/experts.h"
#include "causeway/model/hugging_face.h"
#include "tests/model/model_test_support.h"

namespace causeway::model {
namespace {

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/parity" / name;
}

HostTensor expected(const SafetensorsFile& file, const std::string& name) {
  return from_bytes(file.dtype(name), file.entry(name).shape, file.data(name).data());
}

Tensor integer_tensor(const HostTensor& tensor) {
  return Tensor::from_values(tensor.values, tensor.shape, DType::kI32);
}

// PyTorch's float kernels are as far from f64 as ours; sums go over a few hundred terms, several in a row.
constexpr Bound kParity = {.rms = 4e-6, .row = 5e-5, .ulps = 1};

void expect_parity(const std::string& what, const HostTensor& actual, const HostTensor& reference) {
  const Comparison comparison = compare(actual, reference, kParity);
  EXPECT_TRUE(comparison.equal) << what << ": " << comparison.text;
}

class Parity : public testing::TestWithParam<const char*> {
 protected:
  Parity()
      : file_(fixture(GetParam()) / "expected.safetensors"), model_(load_hugging_face_model(fixture(GetParam()))) {}

  // Arguments: tokens, targets. Results: logits, the mean loss, and the gradient of each parameter.
  std::vector<Tensor> forward_and_backward(const std::vector<Tensor>& arguments) const {
    const ForwardInputs inputs = {.tokens = arguments[0], .documents = {}, .dropout_key = {}};
    const Tensor& targets = arguments[1];
    const Tensor counted = cast(targets >= 0, DType::kF32);
    const Tensor loss = model_->loss(inputs, targets, counted / sum(counted));
    std::vector<Tensor> results = {model_->logits(inputs), loss}, weights;
    for (const Parameter& parameter : model_->parameters()) weights.push_back(parameter.tensor);
    for (Tensor& gradient : gradients(loss, weights)) results.push_back(std::move(gradient));
    return results;
  }

  std::vector<Tensor> arguments() const {
    return {integer_tensor(expected(file_, "input_ids")), integer_tensor(expected(file_, "labels"))};
  }

  ModelFunction function() const {
    return [this](const std::vector<Tensor>& arguments) { return forward_and_backward(arguments); };
  }

  void expect_all(const std::vector<HostTensor>& results) const {
    expect_parity("logits", results[0], expected(file_, "logits"));
    expect_parity("loss", results[1], expected(file_, "loss"));
    for (size_t i = 0; i < model_->parameters().size(); ++i) {
      const std::string& name = model_->parameters()[i].name;
      expect_parity("gradient of " + name, results[2 + i], expected_gradient(model_->parameters()[i]));
    }
  }

  // Of experts a file has a tensor for each, whatever the layout of their weights.
  HostTensor expected_gradient(const Parameter& parameter) const {
    HostTensor all;
    for (const WrittenTensor& one : written_tensors(parameter)) {
      const HostTensor part = expected(file_, "grad." + one.name);
      all.dtype = part.dtype;
      all.values.insert(all.values.end(), part.values.begin(), part.values.end());
    }
    all.shape = parameter.stored_shape();
    return all;
  }

  SafetensorsFile file_;
  std::unique_ptr<LanguageModel> model_;
};

TEST_P(Parity, OfTheGraph) { expect_all(run_on_interpreter(function(), arguments())); }

TEST_P(Parity, OfTheProgramOnTheCpu) { expect_all(run_on_cpu(function(), arguments())); }

TEST_P(Parity, EveryTensorOfTheCheckpointIsAParameter) {
  const SafetensorsFile weights(fixture(GetParam()) / "model.safetensors");
  std::set<std::string> names;
  for (const StoredWeight& weight : find_weights(*model_, SafetensorsModel(fixture(GetParam()))))
    for (const std::string& name : weight.stored_names()) names.insert(name);
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.end()), weights.names());
}

INSTANTIATE_TEST_SUITE_P(Families, Parity,
                         testing::Values("gemma2", "gpt2", "llama", "llama3", "llama_tied", "mistral", "mixtral", "mpt",
                                         "mpt_heads6", "olmo2", "olmoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
                         [](const auto& info) { return std::string(info.param); });

class ParityOfRouters : public Parity {
 protected:
  // Results: the load-balancing loss, and its gradient for the weights of each router.
  std::vector<Tensor> balance(const std::vector<Tensor>& arguments) const {
    RouterStatistics routing;
    ForwardInputs inputs;
    inputs.tokens = arguments[0];
    inputs.routing = &routing;
    model_->hidden_states(inputs);
    std::vector<Tensor> weights;
    for (const Parameter& parameter : model_->parameters())
      if (is_router(parameter.name)) weights.push_back(parameter.tensor);
    std::vector<Tensor> results = {routing.balance()};
    for (Tensor& gradient : gradients(results.front(), weights)) results.push_back(std::move(gradient));
    return results;
  }

  static bool is_router(const std::string& name) {
    return name.ends_with("mlp.gate.weight") || name.ends_with("block_sparse_moe.gate.weight");
  }

  void expect_balance(const std::vector<HostTensor>& results) const {
    expect_parity("load-balancing loss", results[0], expected(file_, "balance.loss"));
    size_t next = 1;
    for (const Parameter& parameter : model_->parameters()) {
      if (!is_router(parameter.name)) continue;
      std::string name = parameter.name;
      if (const size_t at = name.find("block_sparse_moe"); at != std::string::npos) name.replace(at, 16, "mlp");
      expect_parity(name, results[next++], expected(file_, "balance.grad." + name));
    }
    EXPECT_EQ(next, results.size());
    EXPECT_GT(next, 1u);
  }
};

TEST_P(ParityOfRouters, LoadBalancingLoss) {
  const ModelFunction function = [this](const std::vector<Tensor>& arguments) { return balance(arguments); };
  expect_balance(run_on_interpreter(function, arguments()));
  expect_balance(run_on_cpu(function, arguments()));
}

INSTANTIATE_TEST_SUITE_P(Families, ParityOfRouters, testing::Values("mixtral", "olmoe", "qwen2_moe", "qwen3_moe"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace causeway::model
