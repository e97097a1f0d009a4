#include "causeway/program/horizontal_fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "causeway/program/kernel_generation.h"
#include "causeway/program/liveness.h"

namespace causeway::program {
namespace {

// What every driver passes to a kernel.
constexpr size_t kMostArguments = 4096 / sizeof(void*);
// Results of more bytes fill a GPU, or nearly, and memory would be held for too many of them, unless they take the
// place of what is there: the last blocks of a launch leave most of a GPU idle, and so do the first of the next one.
constexpr int64_t kSmallBytes = int64_t{256} << 10;

class HorizontalFuser {
 public:
  HorizontalFuser(const FusionProblem& problem, const MaterializedValues& materialized, const FusedKernels& kernels)
      : graph_(problem.graph),
        target_(problem.target),
        materialized_(materialized),
        kernels_(kernels),
        text_of_(kernels.size()),
        launch_of_(kernels.size()) {
    for (size_t k = 0; k < kernels.size(); ++k)
      for (const Value read : kernels.reads(k)) last_reader_[read] = k;
    for (const Assignment& assignment : graph_.assignments) replaces_[assignment.value].push_back(assignment.target);
    for (const Value input : graph_.inputs())
      if (graph_.node(input).attributes.on_host) on_host_.insert(input);
    outlives_.insert(graph_.outputs.begin(), graph_.outputs.end());
    for (const Assignment& assignment : graph_.assignments) outlives_.insert(assignment.value);
    for_each_kernel(kernels.size(), [&](size_t k) { text_of_[k] = text_of(k); });
  }

  std::vector<KernelRequest> run() {
    for (size_t k = 0; k < kernels_.size(); ++k) {
      for (const int family : families_before(k)) launch(family);
      if (const std::optional<int> family = family_of(k)) put_off(k, *family);
    }
    for (size_t family = 0; family < waiting_.size(); ++family) launch(static_cast<int>(family));
    return gather();
  }

 private:
  bool is_small(Value value) const {
    const Dim count = element_count(graph_.shape(value));
    return count.is_constant() && byte_count(graph_.type(value), {}) <= kSmallBytes;
  }

  // What takes the place of an input on the host is in the arena until it goes there.
  bool takes_no_memory(Value member) const {
    if (is_small(member)) return true;
    const auto replaced = replaces_.find(member);
    return replaced != replaces_.end() &&
           std::ranges::none_of(replaced->second, [&](Value input) { return on_host_.contains(input); });
  }

  // Whether the loop stores nothing large but new values of inputs, as an optimizer does.
  bool takes_no_memory(size_t k) const {
    const KernelRequest& request = kernels_.request(k);
    for (size_t i = 0; i < request.members.size(); ++i)
      if (request.stored[i] && !takes_no_memory(request.members[i])) return false;
    return true;
  }

  // What loops have in common that may share a launch, their kernels' text among it, and how many may.
  struct LoopText {
    std::string key;
    size_t most = 0;
  };
  // Nothing for what keeps a launch of its own.
  std::optional<LoopText> text_of(size_t k) const {
    const KernelRequest& request = kernels_.request(k);
    if (request.kind != KernelKind::kLoop || !request.rows.is_constant() || !request.columns.is_constant())
      return std::nullopt;
    if (!takes_no_memory(k)) return std::nullopt;
    const GeneratedKernel kernel = generate_kernel(graph_, materialized_, request, target_);
    // Blocks of a launch that is shared are dealt out one by one, and a cluster's would come apart.
    if (!kernel.sizes.empty() ||
        std::ranges::any_of(kernel.phases, [](const auto& phase) { return phase.cluster > 1; }))
      return std::nullopt;
    std::string key = fmt::format("{} {}", request.rows.constant(), request.columns.constant());
    for (const KernelPhase& phase : kernel.phases) key += fmt::format(" {}", phase.tasks({}));
    for (const bool stored : request.stored) key += stored ? " stored" : " kept";
    return LoopText{key + "\n" + kernel.source, kMostArguments / kernel.arguments.size()};
  }

  // Loops with the same number have equal text, sizes and blocks.
  std::optional<int> family_of(size_t k) {
    const std::optional<LoopText>& text = text_of_[k];
    if (!text) return std::nullopt;
    const auto [entry, inserted] = family_of_key_.try_emplace(text->key, static_cast<int>(waiting_.size()));
    if (inserted) {
      waiting_.emplace_back();
      most_.push_back(text->most);
    }
    return entry->second;
  }

  void put_off(size_t k, int family) {
    waiting_[static_cast<size_t>(family)].push_back(k);
    for (const Value member : kernels_.request(k).members) written_by_[member] = family;
    for (const Value read : kernels_.reads(k))
      if (is_input(graph_.node(read).op)) read_by_.emplace(read, family);
  }

  // Those of which a loop that was put off has to come before kernel k.
  std::set<int> families_before(size_t k) const {
    std::set<int> families;
    for (const Value read : kernels_.reads(k))
      if (const auto entry = written_by_.find(read); entry != written_by_.end()) families.insert(entry->second);
    for (const Value member : kernels_.request(k).members) {
      const auto replaced = replaces_.find(member);
      if (replaced == replaces_.end()) continue;
      for (const Value input : replaced->second)
        for (auto entry = read_by_.lower_bound({input, 0}); entry != read_by_.end() && entry->first == input; ++entry)
          families.insert(entry->second);
    }
    return families;
  }

  // Whether the loop may read all it reads at the place of a later kernel without anything large being kept for it
  // while memory is taken.
  bool may_wait(size_t k, size_t until) const {
    size_t next = k;
    while (next < until && takes_no_memory(next + 1)) ++next;
    return next == until || std::all_of(kernels_.reads(k).begin(), kernels_.reads(k).end(), [&](Value read) {
             return is_input(graph_.node(read).op) || outlives_.contains(read) || is_small(read) ||
                    last_reader_.at(read) >= until;
           });
  }

  // What waits is shared out evenly over the launches that it takes, so that most of them have one text.
  void launch(int family) {
    const std::vector<size_t> waiting = std::exchange(waiting_[static_cast<size_t>(family)], {});
    for (const size_t k : waiting) {
      for (const Value member : kernels_.request(k).members) written_by_.erase(member);
      for (const Value read : kernels_.reads(k)) read_by_.erase({read, family});
    }
    const size_t most = most_[static_cast<size_t>(family)];
    if (most < 2 || waiting.size() < 2) return;
    const size_t launches = (waiting.size() + most - 1) / most;
    for (size_t i = 0, begin = 0; i < launches; ++i) {
      const size_t end = begin + waiting.size() / launches + (i < waiting.size() % launches ? 1 : 0);
      const size_t last = waiting[end - 1];
      for (; begin < end; ++begin)
        if (may_wait(waiting[begin], last)) launch_of_[waiting[begin]] = last;
    }
  }

  std::vector<KernelRequest> gather() const {
    std::vector<KernelRequest> requests;
    std::map<size_t, KernelRequest> begun;  // by the place of the last
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const KernelRequest& request = kernels_.request(k);
      if (!launch_of_[k]) {
        requests.push_back(request);
        continue;
      }
      const size_t last = *launch_of_[k];
      if (const auto first = begun.find(last); first != begun.end()) {
        first->second.alike.push_back(request.members);
      } else {
        begun.emplace(last, request);
      }
      if (k == last) requests.push_back(std::move(begun.at(last)));
    }
    return requests;
  }

  const Graph& graph_;
  const Target& target_;
  const MaterializedValues& materialized_;
  const FusedKernels& kernels_;
  std::map<Value, size_t> last_reader_;
  std::map<Value, std::vector<Value>> replaces_;  // by value, the inputs that take it as their new value
  std::set<Value> on_host_;                       // inputs
  std::set<Value> outlives_;                      // what is kept until the program ends
  std::vector<std::optional<LoopText>> text_of_;  // by kernel
  std::map<std::string, int> family_of_key_;
  std::vector<std::vector<size_t>> waiting_;      // by family, loops that were put off
  std::vector<size_t> most_;                      // by family, loops of a launch
  std::map<Value, int> written_by_;               // the family that waits
  std::set<std::pair<Value, int>> read_by_;       // inputs, and families that wait
  std::vector<std::optional<size_t>> launch_of_;  // by loop, the last one of its launch
};

}  // namespace

std::vector<KernelRequest> fuse_horizontally(const FusionProblem& problem, const MaterializedValues& materialized,
                                             const FusedKernels& kernels) {
  return HorizontalFuser(problem, materialized, kernels).run();
}

}  // namespace causeway::program
