// Matrices that are frozen and lie in 8 or 4 bits an element: the base of adapters (QLoRA: Dettmers et al., arXiv
// 2305.14314). They are multiplied in f32 or bf16; what they are there is computed right before (dequantize()).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "causeway/base/thread_pool.h"
#include "causeway/model/adapter.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/namespaces.h"
#include "causeway/tensor/tensor.h"

namespace causeway::model {

// So many bytes at least do elements of a model take that is the base of such adapters. `unquantized`: the type of
// those that are not quantized.
int64_t least_bytes_of_base(const AdapterConfig& adapter, int64_t elements, DType unquantized);

// A matrix of rows x columns, row-major, as one of columns x rows.
std::vector<float> transposed(std::span<const float> values, int64_t rows, int64_t columns);

// A part of a quantized matrix in memory, by the name that it has among the model's parameters behind the matrix' own.
struct QuantizedPart {
  std::string name;  // "", "absmax", "nested_absmax" (as bitsandbytes has them) or "scale"
  Tensor tensor;
};

// f32 [16 + 256], which all matrices in nf4 of a context share: the values of elements' codes, and of scales' codes.
Tensor make_code_values();

// One matrix, always [out, in] whatever its layout in files: nf4's blocks run along rows. Where rows are no multiple of
// a block, blocks go from one to the next, and the parts have one dimension.
class QuantizedWeight {
 public:
  // Memory with undefined contents in the current context, for a matrix "NAME.weight" that is multiplied as `type`, f32
  // or bf16. `code_values`: of nf4, those of make_code_values(). Its parts are cut over the context's mesh as
  // weight_sharding() cuts them. Throws Error(kUnsupported), which names the axis or the key, where nf4 cannot cut what
  // fsdp or tp would of the matrix, or its blocks do not divide it.
  QuantizedWeight(const std::string& name, BaseWeights base, ParameterDim out, ParameterDim in, DType type,
                  Tensor code_values = {});

  const std::vector<QuantizedPart>& parts() const { return parts_; }
  int64_t outputs() const { return outputs_; }
  int64_t inputs() const { return inputs_; }

  // Quantizes the values of the whole matrix, row-major [out, in], and keeps what this rank holds of the result. Throws
  // Error(kInvalidArgument) where one is not finite.
  void write(std::span<const float> values, ThreadPool& pool);

  // [out, in] in the type that it is multiplied in: of nf4 bitsandbytes' values to the last bit. Over a mesh cut along
  // axes that do not gather weights alone.
  Tensor dequantize() const;

 private:
  Tensor part(const std::string& name) const;
  Tensor gathered(const std::string& name) const;
  Tensor dequantize_nf4() const;
  void write_part(const std::string& name, std::span<const std::byte> whole);

  std::string name_;
  BaseWeights base_;
  int64_t outputs_, inputs_;
  DType type_;
  std::vector<QuantizedPart> parts_;
  Tensor code_values_;
};

}  // namespace causeway::model
