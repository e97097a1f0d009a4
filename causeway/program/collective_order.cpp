#include "causeway/program/collective_order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace causeway::program {
namespace {

// Gathers begin when the kernels begin to use what was gathered so many instructions before.
constexpr size_t kGathersAhead = 2;

std::vector<Access> accesses_of(const KernelWork& work) {
  return Instruction{kComputeQueue, std::visit([](const auto& one) { return decltype(Instruction::work)(one); }, work)}
      .accesses();
}

int64_t bytes_of(const Collectives& collectives) {
  const Collective& one = collectives.parts.front().collective;
  return std::max(one.sent(collectives.ranks), one.received(collectives.ranks)) *
         static_cast<int64_t>(size_bytes(one.dtype));
}

bool go_together(const Collectives& a, const Collectives& b) {
  return a.group == b.group && a.parts.front().collective.kind == b.parts.front().collective.kind;
}

// Where a collective may stand: before the kernel at a position.
struct Range {
  size_t index = 0;                  // among the kernels
  size_t earliest = 0;               // behind everything that writes what it reads or uses what it writes
  size_t latest = 0;                 // before everything that uses what it writes or overwrites what it reads
  bool of_collective = false;        // reads what another one writes
  std::optional<size_t> conversion;  // a launch that makes what it sends of the program's inputs alone: it comes along
};

struct Bucket {
  std::vector<size_t> members;  // in the order in which they run
  size_t position = 0;          // before which kernel
  bool ahead = false;
};

class CollectiveOrder {
 public:
  CollectiveOrder(std::vector<KernelWork> kernels, int64_t bucket_bytes)
      : kernels_(std::move(kernels)), bucket_bytes_(bucket_bytes) {
    for (size_t k = 0; k < kernels_.size(); ++k) {
      accesses_.push_back(accesses_of(kernels_[k]));
      for (const Access& access : accesses_[k]) uses_[access.holding.buffer].push_back({k, access.written});
    }
  }

  std::vector<OrderedWork> run() {
    std::vector<Range> ahead, behind;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!is_collective(k)) continue;
      const Range range = find_range(k);
      (gathers_for_a_kernel(range) ? ahead : behind).push_back(range);
    }
    bucket_ahead(std::move(ahead));
    bucket_behind(std::move(behind));
    return list();
  }

 private:
  struct Use {
    size_t kernel;
    bool written;
  };

  bool is_collective(size_t k) const { return std::holds_alternative<Collectives>(kernels_[k]); }
  const Collectives& collective(size_t k) const { return std::get<Collectives>(kernels_[k]); }

  Range find_range(size_t k) {
    Range range{k, 0, kernels_.size(), false, {}};
    std::optional<size_t> last;
    for (const Access& access : accesses_[k])
      for (const Use& use : uses_[access.holding.buffer]) {
        if (use.kernel == k || !(use.written || access.written)) continue;
        if (use.kernel > k) {
          range.latest = std::min(range.latest, use.kernel);
          continue;
        }
        range.of_collective = range.of_collective || is_collective(use.kernel);
        range.earliest = std::max(range.earliest, is_collective(use.kernel) ? earliest_[use.kernel] : use.kernel + 1);
        last = std::max(last.value_or(0), use.kernel);
      }
    if (last && !range.of_collective && depends_on_inputs_alone(*last)) {
      range.conversion = last;
      range.earliest = 0;
    }
    earliest_[k] = range.earliest;
    return range;
  }

  // Nothing that it reads was written before it, and nothing that it writes was used.
  bool depends_on_inputs_alone(size_t k) {
    for (const Access& access : accesses_[k])
      for (const Use& use : uses_[access.holding.buffer])
        if (use.kernel < k && (use.written || access.written)) return false;
    return true;
  }

  bool gathers_for_a_kernel(const Range& range) const {
    return collective(range.index).parts.front().collective.kind == CollectiveKind::kAllGather &&
           !range.of_collective && range.latest < kernels_.size() && !is_collective(range.latest);
  }

  void bucket_ahead(std::vector<Range> gathers) {
    std::ranges::sort(gathers, {}, [](const Range& range) { return std::pair(range.latest, range.index); });
    std::vector<size_t> first_uses;  // of the buckets so far
    int64_t bytes = 0;
    for (const Range& gather : gathers) {
      const size_t count = first_uses.size();
      const bool joins = count > 0 && bytes < bucket_bytes_ && gather.earliest <= buckets_.back().position &&
                         go_together(collective(buckets_.back().members.front()), collective(gather.index));
      if (!joins) {
        const size_t begin = count >= kGathersAhead ? first_uses[count - kGathersAhead] : 0;
        buckets_.push_back({{}, std::min(std::max(gather.earliest, begin), gather.latest), true});
        first_uses.push_back(gather.latest);
        bytes = 0;
      }
      buckets_.back().members.push_back(gather.index);
      if (gather.conversion) conversion_of_[gather.index] = *gather.conversion;
      bytes += bytes_of(collective(gather.index));
    }
  }

  // A bucket is closed when it is full, when another kind comes, or when something of it is used.
  void bucket_behind(std::vector<Range> collectives) {
    std::ranges::sort(collectives, {}, [](const Range& range) { return std::pair(range.earliest, range.index); });
    Bucket* open = nullptr;
    int64_t bytes = 0;
    size_t latest = 0;
    buckets_.reserve(buckets_.size() + collectives.size());
    for (const Range& range : collectives) {
      if (open == nullptr || range.of_collective || latest <= range.earliest || bytes >= bucket_bytes_ ||
          !go_together(collective(open->members.front()), collective(range.index))) {
        open = &buckets_.emplace_back();
        bytes = 0;
        latest = kernels_.size();
      }
      open->members.push_back(range.index);
      open->position = range.earliest;
      latest = std::min(latest, range.latest);
      bytes += bytes_of(collective(range.index));
      if (range.conversion) conversion_of_[range.index] = *range.conversion;
    }
  }

  std::vector<OrderedWork> list() {
    std::map<size_t, std::vector<const Bucket*>> at;
    for (const Bucket& bucket : buckets_) at[bucket.position].push_back(&bucket);
    std::vector<OrderedWork> result;
    std::set<size_t> done;
    const auto add_launch = [&](size_t k) {
      if (done.insert(k).second) result.push_back({std::move(kernels_[k])});
    };
    for (size_t k = 0; k <= kernels_.size(); ++k) {
      for (const Bucket* bucket : at[k]) {
        for (const size_t member : bucket->members)
          if (const auto conversion = conversion_of_.find(member); conversion != conversion_of_.end())
            add_launch(conversion->second);
        result.push_back({merged(bucket->members), bucket->ahead});
      }
      if (k < kernels_.size() && !is_collective(k)) add_launch(k);
    }
    return result;
  }

  Collectives merged(const std::vector<size_t>& members) {
    Collectives result = collective(members.front());
    for (size_t m = 1; m < members.size(); ++m)
      for (const Collectives::Part& part : collective(members[m]).parts) result.parts.push_back(part);
    return result;
  }

  std::vector<KernelWork> kernels_;
  int64_t bucket_bytes_;
  std::vector<std::vector<Access>> accesses_;  // by kernel
  std::map<int, std::vector<Use>> uses_;       // by buffer, in order
  std::map<size_t, size_t> earliest_;          // of collectives
  std::map<size_t, size_t> conversion_of_;     // launches that come along with collectives
  std::vector<Bucket> buckets_;
};

}  // namespace

std::vector<OrderedWork> order_collectives(std::vector<KernelWork> kernels, int64_t bucket_bytes) {
  return CollectiveOrder(std::move(kernels), bucket_bytes).run();
}

}  // namespace causeway::program
