#include "causeway/program/fused_kernels.h"

#include <algorithm>
#include <utility>

namespace causeway::program {

std::optional<size_t> FusedKernels::kernel_of(Value value) const {
  const auto entry = kernel_of_.find(value);
  return entry == kernel_of_.end() ? std::nullopt : std::optional<size_t>(entry->second);
}

void FusedKernels::append(KernelRequest request, std::set<Value> reads) {
  for (const Value member : request.members) kernel_of_[member] = kernels_.size();
  kernels_.push_back({std::move(request), std::move(reads)});
}

void FusedKernels::replace(size_t k, KernelRequest request, std::set<Value> reads) {
  for (const Value member : request.members) kernel_of_[member] = k;
  kernels_[k] = {std::move(request), std::move(reads)};
}

void FusedKernels::erase(size_t k) {
  std::erase_if(kernel_of_, [&](const auto& entry) { return entry.second == k; });
  kernels_.erase(kernels_.begin() + static_cast<std::ptrdiff_t>(k));
  for (auto& [value, kernel] : kernel_of_)
    if (kernel > k) --kernel;
}

void FusedKernels::move_to_end(size_t k) {
  const auto moved = kernels_.begin() + static_cast<std::ptrdiff_t>(k);
  std::rotate(moved, moved + 1, kernels_.end());
  for (size_t i = k; i < kernels_.size(); ++i)
    for (const Value member : kernels_[i].request.members) kernel_of_[member] = i;
}

std::vector<KernelRequest> FusedKernels::take_requests() && {
  std::vector<KernelRequest> requests;
  requests.reserve(kernels_.size());
  for (Kernel& kernel : kernels_) requests.push_back(std::move(kernel.request));
  return requests;
}

}  // namespace causeway::program
