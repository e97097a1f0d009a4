#include "causeway/train/step/stage_schedule.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

// Without messages.
using Order = std::vector<StageAction>;

Order one_forward_one_backward(const PipelineShape& shape, int64_t stage) {
  const int64_t all = shape.micro_batches, ahead = std::min(all, shape.stages - stage - 1);
  Order order;
  for (int64_t m = 0; m < all + ahead; ++m) {
    if (m < all) order.push_back({StageWork::kForward, stage, m});
    if (m >= ahead) order.push_back({StageWork::kBackward, stage, m - ahead});
  }
  return order;
}

// Groups of as many micro-batches as stages go through all pieces, one piece after the other.
Order interleaved(const PipelineShape& shape, int64_t stage) {
  const int64_t all = shape.micro_batches * shape.chunks, group = shape.stages * shape.chunks;
  const auto action = [&](StageWork work, int64_t number) -> StageAction {
    const int64_t within = number % group, chunk = within / shape.stages;
    const int64_t micro_batch = number / group * shape.stages + within % shape.stages;
    const int64_t position = work == StageWork::kForward ? chunk : shape.chunks - 1 - chunk;
    return {work, position * shape.stages + stage, micro_batch};
  };
  const int64_t ahead = std::min(all, (shape.stages - stage - 1) * 2 + (shape.chunks - 1) * shape.stages);
  Order order;
  for (int64_t number = 0; number < all + ahead; ++number) {
    if (number < all) order.push_back(action(StageWork::kForward, number));
    if (number >= ahead) order.push_back(action(StageWork::kBackward, number - ahead));
  }
  return order;
}

// Weight gradients stay `stage` micro-batches behind input gradients: so each stage has some left when it would wait.
Order zero_bubble(const PipelineShape& shape, int64_t stage) {
  const int64_t all = shape.micro_batches;
  int64_t forward = 0, input = 0, weight = 0;
  Order order;
  while (forward < std::min(all, shape.stages - stage)) order.push_back({StageWork::kForward, stage, forward++});
  while (weight < all) {
    if (input < all) order.push_back({StageWork::kInputGradient, stage, input++});
    if (input - weight > stage || input == all) order.push_back({StageWork::kWeightGradient, stage, weight++});
    if (forward < all) order.push_back({StageWork::kForward, stage, forward++});
  }
  return order;
}

Order order_of(PipelineSchedule schedule, const PipelineShape& shape, int64_t stage) {
  CAUSEWAY_CHECK(shape.stages >= 1 && shape.micro_batches >= 1 && stage >= 0 && stage < shape.stages);
  CAUSEWAY_CHECK(schedule == PipelineSchedule::kInterleaved
                     ? shape.chunks >= 1 && shape.micro_batches % shape.stages == 0
                     : shape.chunks == 1);
  switch (schedule) {
    case PipelineSchedule::kOneForwardOneBackward:
      return one_forward_one_backward(shape, stage);
    case PipelineSchedule::kInterleaved:
      return interleaved(shape, stage);
    case PipelineSchedule::kZeroBubble:
      return zero_bubble(shape, stage);
  }
  return {};
}

}  // namespace

std::vector<StageAction> stage_schedule(PipelineSchedule schedule, const PipelineShape& shape, int64_t stage) {
  const int64_t last_piece = shape.stages * shape.chunks - 1;
  std::vector<StageAction> list;
  for (const StageAction& action : order_of(schedule, shape, stage)) {
    const auto add = [&](StageWork work) { list.push_back({work, action.piece, action.micro_batch}); };
    const bool is_forward = action.work == StageWork::kForward;
    const bool is_backward = action.work == StageWork::kBackward || action.work == StageWork::kInputGradient;
    if (is_forward && action.piece > 0) add(StageWork::kReceiveStream);
    if (is_backward && action.piece < last_piece) add(StageWork::kReceiveGradient);
    list.push_back(action);
    if (is_forward && action.piece < last_piece) add(StageWork::kSendStream);
    if (is_backward && action.piece > 0) add(StageWork::kSendGradient);
  }
  return list;
}

std::vector<StageAction> stage_schedule_at(PipelineSchedule schedule, const PipelineShape& shape, int64_t stage,
                                           const StagePlace& place) {
  CAUSEWAY_CHECK((place.before > 0) == (stage > 0) && (place.after > 0) == (stage < shape.stages - 1));
  PipelineShape other = shape;
  other.stages = place.before + place.after + 1;
  std::vector<StageAction> list = stage_schedule(schedule, other, place.before);
  for (StageAction& action : list) action.piece = action.piece / other.stages * shape.stages + stage;
  return list;
}

double bubble_share(PipelineSchedule schedule, const PipelineShape& shape) {
  std::vector<Order> orders;
  for (int64_t stage = 0; stage < shape.stages; ++stage) orders.push_back(order_of(schedule, shape, stage));
  std::vector<size_t> at(orders.size());
  std::vector<int64_t> time(orders.size());
  std::map<std::tuple<bool, int64_t, int64_t>, int64_t> done;  // whether backward, piece, micro-batch: when
  const int64_t last_piece = shape.stages * shape.chunks - 1;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (size_t stage = 0; stage < orders.size(); ++stage) {
      for (; at[stage] < orders[stage].size(); ++at[stage]) {
        const StageAction& next = orders[stage][at[stage]];
        const bool forward = next.work == StageWork::kForward, weights = next.work == StageWork::kWeightGradient;
        const bool waits = !weights && next.piece != (forward ? 0 : last_piece);
        const auto needed = done.find({!forward, next.piece + (forward ? -1 : 1), next.micro_batch});
        if (waits && needed == done.end()) break;
        if (waits) time[stage] = std::max(time[stage], needed->second);
        time[stage] += next.work == StageWork::kBackward ? 2 : 1;
        if (!weights) done[{!forward, next.piece, next.micro_batch}] = time[stage];
        goes_on = true;
      }
    }
  }
  for (size_t stage = 0; stage < orders.size(); ++stage)
    CAUSEWAY_CHECK(at[stage] == orders[stage].size(), "stage {} waits for ever", stage);
  const int64_t longest = *std::max_element(time.begin(), time.end());
  return 1 - static_cast<double>(3 * shape.micro_batches * shape.chunks) / static_cast<double>(longest);
}

}  // namespace causeway::train
