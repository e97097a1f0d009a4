#include "causeway/device/emulator/async_host.h"

#include <utility>

namespace causeway::device {

void DelayedEffects::apply_one(AsyncHost& host) {
  if (effects_.empty()) return;
  std::swap(effects_[host.random(effects_.size())], effects_.back());
  const std::function<void()> effect = std::move(effects_.back());
  effects_.pop_back();
  effect();
}

void DelayedEffects::apply_all(AsyncHost& host) {
  while (!effects_.empty()) apply_one(host);
}

}  // namespace causeway::device
