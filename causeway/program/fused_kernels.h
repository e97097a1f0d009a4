// The kernels of a program while fusion puts them together, in an order in which they may run.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "causeway/codegen/kernel.h"

namespace causeway::program {

class FusedKernels {
 public:
  size_t size() const { return kernels_.size(); }
  const KernelRequest& request(size_t k) const { return kernels_[k].request; }
  // The values in memory that the kernel's members are computed from, its own among them.
  const std::set<Value>& reads(size_t k) const { return kernels_[k].reads; }
  bool reads(size_t k, Value value) const { return kernels_[k].reads.contains(value); }
  // The kernel of which the value is a member.
  std::optional<size_t> kernel_of(Value value) const;
  // The last kernel that computes one of the values; nothing where none does.
  template <class Values>
  std::optional<size_t> last_writer(const Values& values) const {
    std::optional<size_t> last;
    for (const Value value : values)
      if (const std::optional<size_t> k = kernel_of(value); k && (!last || *k > *last)) last = k;
    return last;
  }

  void append(KernelRequest request, std::set<Value> reads);
  // Puts a request of more members in the place of kernel k's, or one of the same members.
  void replace(size_t k, KernelRequest request, std::set<Value> reads);
  // Forgets the kernel and which one its members are of.
  void erase(size_t k);
  void move_to_end(size_t k);
  void set_stored(size_t k, std::vector<bool> stored) { kernels_[k].request.stored = std::move(stored); }

  std::vector<KernelRequest> take_requests() &&;

 private:
  struct Kernel {
    KernelRequest request;
    std::set<Value> reads;
  };

  std::vector<Kernel> kernels_;
  std::map<Value, size_t> kernel_of_;
};

}  // namespace causeway::program
