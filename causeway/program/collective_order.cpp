#include "causeway/program/collective_order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <utility>

namespace causeway::program {
namespace {

// Gathers begin when the kernels begin to use what was gathered so many instructions before; the second ones when they
// begin to use the first, which are few, because nothing runs beside them.
constexpr size_t kGathersAhead = 2;
constexpr int64_t kFirstGatherBytes = int64_t{8} << 20;
// Gathers of so little that they take next to no memory go together before all others: a library's launch for a few of
// them between GEMMs would wait for a multiprocessor, and hold some while it waits for other ranks.
constexpr int64_t kSmallGatherBytes = int64_t{1} << 20;
// A launch that waits for collectives alone comes when so many more instructions behind theirs have begun.
constexpr size_t kLaunchesBehind = 2;

std::vector<Access> accesses_of(const KernelWork& work) {
  return Instruction{kComputeQueue, std::visit([](const auto& one) { return decltype(Instruction::work)(one); }, work)}
      .accesses();
}

int64_t bytes_of_first(const Collectives& collectives) {
  const Collective& one = collectives.parts.front().collective;
  return std::max(one.sent(collectives.ranks), one.received(collectives.ranks)) *
         static_cast<int64_t>(size_bytes(one.dtype));
}

CollectiveKind kind_of(const Collectives& collectives) { return collectives.parts.front().collective.kind; }

// Where a collective may stand: before the kernel at a position.
struct Range {
  size_t index = 0;                  // among the kernels
  size_t earliest = 0;               // behind every kernel that writes what it reads or uses what it writes
  size_t first_use = 0;              // of what it writes, or where what it reads is overwritten; also by a collective
  size_t latest = 0;                 // before every kernel that does so, or that needs a collective that does
  std::vector<size_t> follows;       // collectives that it comes behind, among the kernels
  std::optional<size_t> conversion;  // a launch that makes what it sends of the program's inputs alone: it comes along
  bool ahead = false;                // it gathers what kernels use, and needs nothing but kernels and such gathers
  size_t bucket = 0;
};

// Buckets at one position run in the order in which they were made.
struct Bucket {
  std::vector<size_t> members;  // in the order in which they run
  size_t position = 0;          // before which kernel
  bool ahead = false;
};

// The bucket of a group of ranks that may get another member.
struct OpenBucket {
  size_t bucket = 0;
  int64_t bytes = 0;
  size_t latest = 0;
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
    for (size_t k = 0; k < kernels_.size(); ++k)
      if (is_collective(k)) ranges_.emplace(k, find_range(k));
    for (auto& [k, range] : std::views::reverse(ranges_)) range.latest = find_latest(range);
    find_ahead();
    bucket_ahead();
    // By how many collectives, one behind the other, each of them follows.
    std::map<size_t, std::vector<Range*>> behind;
    std::map<size_t, size_t> depths;
    for (auto& [k, range] : ranges_) {
      if (range.ahead) continue;
      size_t depth = 0;
      for (const size_t other : range.follows)
        if (!ranges_.at(other).ahead) depth = std::max(depth, depths.at(other) + 1);
      depths[k] = depth;
      behind[depth].push_back(&range);
    }
    for (auto& [depth, ranges] : behind) bucket_behind(std::move(ranges));
    find_followers();
    return list();
  }

 private:
  struct Use {
    size_t kernel;
    bool written;
  };

  bool is_collective(size_t k) const { return std::holds_alternative<Collectives>(kernels_[k]); }
  const Collectives& collective(size_t k) const { return std::get<Collectives>(kernels_[k]); }

  // Calls use(kernel) for every other kernel that has to keep its place before or behind this one.
  template <class Visit>
  void for_each_bound(size_t k, Visit visit) {
    for (const Access& access : accesses_[k])
      for (const Use& use : uses_[access.holding.buffer])
        if (use.kernel != k && (use.written || access.written)) visit(use.kernel);
  }

  Range find_range(size_t k) {
    Range range;
    range.index = k;
    range.first_use = kernels_.size();
    std::set<size_t> before, follows;
    for_each_bound(k, [&](size_t other) {
      if (other > k) {
        range.first_use = std::min(range.first_use, other);
        return;
      }
      before.insert(other);
      if (is_collective(other)) {
        follows.insert(other);
      } else {
        range.earliest = std::max(range.earliest, other + 1);
      }
    });
    range.follows.assign(follows.begin(), follows.end());
    if (before.size() == 1 && std::holds_alternative<Launch>(kernels_[*before.begin()]) &&
        depends_on_inputs_alone(*before.begin())) {
      range.conversion = *before.begin();
      range.earliest = 0;
    }
    return range;
  }

  // Those behind it are known.
  size_t find_latest(const Range& range) {
    size_t latest = kernels_.size();
    for_each_bound(range.index, [&](size_t other) {
      if (other > range.index) latest = std::min(latest, is_collective(other) ? ranges_.at(other).latest : other);
    });
    return latest;
  }

  // Nothing that it reads was written before it, and nothing that it writes was used.
  bool depends_on_inputs_alone(size_t k) {
    bool alone = true;
    for_each_bound(k, [&](size_t other) { alone = alone && other > k; });
    return alone;
  }

  void find_ahead() {
    for (auto& [k, range] : ranges_) range.ahead = kind_of(collective(k)) == CollectiveKind::kAllGather;
    const auto stays = [&](const Range& range) {
      const size_t use = range.first_use;
      return use < kernels_.size() && (!is_collective(use) || ranges_.at(use).ahead) &&
             std::ranges::all_of(range.follows, [&](size_t other) { return ranges_.at(other).ahead; });
    };
    // One that leaves may take along those beside it.
    for (bool changed = true; changed;) {
      changed = false;
      for (auto& [k, range] : ranges_) {
        if (!range.ahead || stays(range)) continue;
        range.ahead = false;
        changed = true;
      }
    }
  }

  // Behind the buckets of those that it follows.
  size_t earliest(const Range& range) const {
    size_t earliest = range.earliest;
    for (const size_t other : range.follows) earliest = std::max(earliest, buckets_[ranges_.at(other).bucket].position);
    return earliest;
  }

  bool follows_all_of(const OpenBucket& open, const Range& range) const {
    return std::ranges::all_of(range.follows, [&](size_t other) { return ranges_.at(other).bucket < open.bucket; });
  }

  void join(OpenBucket& open, Range& range) {
    range.bucket = open.bucket;
    buckets_[open.bucket].members.push_back(range.index);
    open.bytes += bytes_of_first(collective(range.index));
    open.latest = std::min(open.latest, range.latest);
    if (range.conversion) conversion_of_[range.index] = *range.conversion;
  }

  // Gathers of each group: small ones at once, others in the order of their first uses.
  void bucket_ahead() {
    std::vector<Range*> gathers;
    std::map<std::string, OpenBucket> small_of_group;
    for (auto& [k, range] : ranges_) {
      if (!range.ahead) continue;
      if (range.earliest > 0 || !range.follows.empty() || bytes_of_first(collective(k)) > kSmallGatherBytes) {
        gathers.push_back(&range);
        continue;
      }
      const auto [open, is_new] = small_of_group.try_emplace(collective(k).group);
      if (is_new) {
        open->second = {buckets_.size(), 0, kernels_.size()};
        buckets_.push_back({{}, 0, true});
      }
      join(open->second, range);
    }
    std::ranges::sort(gathers, {}, [](const Range* range) { return std::pair(range->latest, range->index); });
    std::map<std::string, OpenBucket> open_of_group;
    std::map<std::string, std::vector<size_t>> first_uses_of_group;  // of the buckets so far
    for (Range* gather : gathers) {
      const std::string& group = collective(gather->index).group;
      const auto known = open_of_group.find(group);
      std::vector<size_t>& first_uses = first_uses_of_group[group];
      const int64_t most = first_uses.size() == 1 ? std::min(bucket_bytes_, kFirstGatherBytes) : bucket_bytes_;
      const bool joins = known != open_of_group.end() && known->second.bytes < most &&
                         follows_all_of(known->second, *gather) &&
                         earliest(*gather) <= buckets_[known->second.bucket].position;
      if (!joins) {
        const size_t ahead = std::min(kGathersAhead, first_uses.size());
        const size_t begin = ahead > 0 ? first_uses[first_uses.size() - ahead] : 0;
        open_of_group[group] = {buckets_.size(), 0, kernels_.size()};
        buckets_.push_back({{}, std::min(std::max(earliest(*gather), begin), gather->latest), true});
        first_uses.push_back(gather->latest);
      }
      join(open_of_group[group], *gather);
    }
  }

  // None of them follows another one. A group has a bucket of each kind, which is closed when it is full or when
  // something of it is used.
  void bucket_behind(std::vector<Range*> ranges) {
    for (Range* range : ranges) range->earliest = earliest(*range);
    std::ranges::sort(ranges, {}, [](const Range* range) { return std::pair(range->earliest, range->index); });
    std::map<std::pair<std::string, CollectiveKind>, OpenBucket> open_of_kind;
    for (Range* range : ranges) {
      const std::pair kind(collective(range->index).group, kind_of(collective(range->index)));
      const auto known = open_of_kind.find(kind);
      const bool joins =
          known != open_of_kind.end() && known->second.bytes < bucket_bytes_ && range->earliest < known->second.latest;
      if (!joins) {
        open_of_kind[kind] = {buckets_.size(), 0, kernels_.size()};
        buckets_.emplace_back();
      }
      OpenBucket& open = open_of_kind[kind];
      join(open, *range);
      buckets_[open.bucket].position = range->earliest;
    }
  }

  // Launches that need nothing but collectives, those that add up what was exchanged: what they read is no longer
  // needed then, so they do not keep their place among kernels that come later.
  void find_followers() {
    std::vector<size_t> positions;  // of buckets that are behind kernels, in their order
    for (const Bucket& bucket : buckets_)
      if (!bucket.ahead) positions.push_back(bucket.position);
    std::ranges::sort(positions);
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (!std::holds_alternative<Launch>(kernels_[k])) continue;
      bool follows = true;
      std::optional<size_t> last;  // position of what it waits for
      for_each_bound(k, [&](size_t other) {
        if (other > k) return;
        follows = follows && is_collective(other) && !ranges_.at(other).ahead;
        if (follows) last = std::max(last.value_or(0), buckets_[ranges_.at(other).bucket].position);
      });
      if (!follows || !last) continue;
      const auto behind = std::ranges::upper_bound(positions, *last);
      if (static_cast<size_t>(positions.end() - behind) < kLaunchesBehind) continue;
      const size_t position = behind[kLaunchesBehind - 1];
      if (position < k) followers_at_[position].push_back(k);
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
      if (const auto followers = followers_at_.find(k); followers != followers_at_.end())
        for (const size_t follower : followers->second) add_launch(follower);
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
  std::map<size_t, Range> ranges_;             // of collectives, by kernel
  std::map<size_t, size_t> conversion_of_;     // launches that come along with collectives
  // Launches that come earlier than among the kernels, before the kernel or bucket at a position.
  std::map<size_t, std::vector<size_t>> followers_at_;
  std::vector<Bucket> buckets_;
};

}  // namespace

std::vector<OrderedWork> order_collectives(std::vector<KernelWork> kernels, int64_t bucket_bytes) {
  return CollectiveOrder(std::move(kernels), bucket_bytes).run();
}

}  // namespace causeway::program
