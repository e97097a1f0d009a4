#include "causeway/train/step/flops_utilization.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "causeway/device/device_peaks.h"
#include "causeway/device/open_device.h"
#include "causeway/model/experts.h"

namespace causeway::train {

ParameterCounts parameter_counts(const ModelConfig& config) {
  return {parameter_count(config), active_parameter_count(config)};
}

FlopsUtilization::FlopsUtilization(StepFlops step, WarningSink warn)
    : flops_(std::move(step.flops)), warn_(std::move(warn)), devices_(step.devices) {
  const Target& target = step.target;
  const std::string& product = step.product;
  const std::optional<DevicePeak> peak = find_device_peak(product);
  if (!peak) {
    why_absent_ = why_no_peak(product, target);
    return;
  }
  std::map<std::string, double> shares;
  for (const auto& [operand, share] : step.operand_shares)
    if (share > 0) shares[target.multiplied_as(operand)] += share;
  double time = 0;  // of one TFLOP at the peak
  for (const auto& [operand, share] : shares) {
    const std::optional<double> tflops = peak->tflops(operand);
    if (!tflops) {
      why_absent_ = fmt::format("The datasheet of {} gives no peak for {}.", product, operand);
      return;
    }
    time += share / *tflops;
    peak_text_ += fmt::format("{}{} dense", peak_text_.empty() ? "" : ", ", operand);
    if (shares.size() > 1) peak_text_ += fmt::format(" {:.6g} for {:.3g} %", *tflops, 100 * share);
  }
  if (time <= 0) {
    why_absent_ = "A step multiplies nothing.";
    return;
  }
  peak_tflops_ = shares.size() == 1 ? peak->tflops(shares.begin()->first) : 1 / time;
  peak_text_ = fmt::format("{:.6g} TFLOP/s ({}): {}", *peak_tflops_, peak_text_, peak->source);
}

std::optional<double> FlopsUtilization::of(double step_seconds) {
  if (!peak_tflops_ || step_seconds <= 0) return std::nullopt;
  const double fraction = flops_.total() / (step_seconds * *peak_tflops_ * 1e12 * static_cast<double>(devices_));
  if (fraction <= 1) return fraction;
  if (!warned_) {
    warned_ = true;
    warn_(at_most() ? fmt::format("{:.4g} FLOP at most in {:.4g} s would be {:.1f} % of the device's peak of {:.6g} "
                                  "TFLOP/s: the data leaves much less attention than was counted, and MFU is n/a",
                                  flops_.total(), step_seconds, 100 * fraction, *peak_tflops_)
                    : fmt::format("ERROR IN THE METER: {:.4g} FLOP in {:.4g} s would be {:.1f} % of the device's peak "
                                  "of {:.6g} TFLOP/s, which cannot be; MFU is n/a for such steps. The clock, the "
                                  "counted FLOPs or the peak is wrong: please report it with the output of `causeway "
                                  "doctor`",
                                  flops_.total(), step_seconds, 100 * fraction, *peak_tflops_));
  }
  return std::nullopt;
}

std::vector<std::string> FlopsUtilization::explanation(ParameterCounts parameters, double tokens_per_step) const {
  if (!peak_tflops_) return {fmt::format("mfu: n/a. {}", why_absent_)};
  return {fmt::format("mfu: {}", kFormula),
          fmt::format("  {}{:.4g} FLOP a token; {} parameters{}; attention to {}", at_most() ? "at most " : "",
                      flops_.total() / tokens_per_step, parameters.all,
                      parameters.active == parameters.all ? "" : fmt::format(", {} of them active", parameters.active),
                      density_text(flops_)),
          fmt::format("  peak: {}{}", devices_ > 1 ? fmt::format("{} x ", devices_) : "", peak_text_)};
}

nlohmann::ordered_json FlopsUtilization::basis(ParameterCounts parameters) const {
  nlohmann::ordered_json basis = {{"formula", kFormula},
                                  {"flop_per_step", flops_.total()},
                                  {"parameters", parameters.all},
                                  {"active_parameters", parameters.active},
                                  {"attention_density", flops_.density()},
                                  {"at_most", at_most()},
                                  {"peak_tflops", nullptr}};
  if (peak_tflops_) basis["peak_tflops"] = *peak_tflops_;
  if (devices_ > 1) basis["devices"] = devices_;
  basis["peak"] = peak_tflops_ ? peak_text_ : why_absent_;
  return basis;
}

FlopsUtilization make_flops_utilization(TrainingStep& step, WarningSink warn) {
  Device& device = step.context().device();
  const std::string product = product_name(device);
  std::map<std::string, double> shares;
  if (find_device_peak(product)) shares = step.operand_shares();
  return FlopsUtilization({.flops = step.cost().flops,
                           .operand_shares = shares,
                           .target = device.target(),
                           .product = product,
                           .devices = step.context().mesh().ranks()},
                          std::move(warn));
}

}  // namespace causeway::train
