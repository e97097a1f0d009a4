#include "causeway/train/checkpoint/background_save.h"

#include <nlohmann/json.hpp>

#include "causeway/base/log.h"

namespace causeway::train {
namespace {

constexpr char kWorking = 'w', kDone = 'd', kFailed = 'f';

std::string error_text(const std::optional<Error>& error) {
  if (!error) return {};
  return nlohmann::json{
      {"kind", error->kind()}, {"what", error->message()}, {"where", error->where()}, {"hint", error->hint()}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error parse_error(const std::string& text) {
  const nlohmann::json error = nlohmann::json::parse(text);
  return {error["kind"].get<ErrorKind>(), error["what"], error["where"], error["hint"]};
}

}  // namespace

BackgroundSave::BackgroundSave(const Ranks& ranks, CheckpointWriter writer)
    : ranks_(ranks), writer_(std::move(writer)) {}

BackgroundSave::~BackgroundSave() {
  stop_.request_stop();
  if (task_.valid()) task_.wait();
}

void BackgroundSave::start() { begin(Part::kPrepare); }

// One rank agrees with itself, and does all at once.
void BackgroundSave::work(Part part) {
  const bool alone = ranks_.count() == 1;
  if (part == Part::kPrepare && ranks_.is_first()) writer_.prepare();
  if (part == Part::kWrite || alone) manifest_ = writer_.write_files(stop_.get_token());
  if (alone) {
    writer_.complete(manifest_);
  } else if (part == Part::kComplete && ranks_.is_first()) {
    writer_.complete(merge_manifests(manifests_));
  }
}

void BackgroundSave::begin(Part part) {
  part_ = part;
  error_.reset();
  const auto run = [this, part] {
    try {
      work(part);
    } catch (const Error& error) {
      error_ = error;
    } catch (const std::exception& error) {
      error_ = Error(ErrorKind::kResource, error.what());
    }
    // What is committed is so whatever becomes of older ones: the next save deletes them.
    const bool last = part == Part::kComplete || ranks_.count() == 1;
    if (error_ || !last || !ranks_.is_first()) return;
    try {
      writer_.tidy();
    } catch (const std::exception& error) {
      log_warning("after the checkpoint of step {}: {}", writer_.step(), error.what());
    }
  };
  try {
    task_ = std::async(std::launch::async, run);
  } catch (const std::exception& error) {  // no thread is to be had
    error_ = Error(ErrorKind::kResource, error.what());
  }
}

bool BackgroundSave::is_done() const {
  return !task_.valid() || task_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

BackgroundSave::State BackgroundSave::fail() {
  for (const std::string& text : ranks_.gather(error_text(error_)))
    if (!failure_ && !text.empty()) failure_ = writer_.not_saved(parse_error(text));
  if (ranks_.is_first()) writer_.discard();
  return State::kFailed;
}

BackgroundSave::State BackgroundSave::advance(bool wait) {
  while (true) {
    if (wait && task_.valid()) task_.wait();
    const bool done = is_done();
    bool all_done = true, failed = false;
    for (const std::string& rank : ranks_.gather(std::string(1, !done ? kWorking : error_ ? kFailed : kDone))) {
      all_done &= rank.at(0) != kWorking;
      failed |= rank.at(0) == kFailed;
    }
    if (!all_done) return State::kUnderWay;
    if (failed) return fail();
    if (part_ == Part::kComplete || ranks_.count() == 1) return State::kCommitted;
    if (part_ == Part::kWrite) manifests_ = ranks_.gather(format_manifest(manifest_));
    begin(part_ == Part::kPrepare ? Part::kWrite : Part::kComplete);
    if (!wait) return State::kUnderWay;
  }
}

}  // namespace causeway::train
