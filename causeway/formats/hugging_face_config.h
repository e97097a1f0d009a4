// config.json of a Hugging Face directory. What stands in it is listed once, by a function that calls the entries below
// in turn; the same list reads a file and writes one, so that what is written can be read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "causeway/namespaces.h"

namespace causeway::formats {

// Every entry throws Error whose place is "config.json": kInvalidArgument for one that is missing or of an unexpected
// kind, kUnsupported, naming the option, for a value that is not implemented. When reading, null counts as
// absent, but for a value that must be there.
class HuggingFaceConfig {
 public:
  // To be written, empty at first.
  HuggingFaceConfig();
  // To be read. Throws Error(kInvalidArgument) unless it is an object.
  explicit HuggingFaceConfig(const nlohmann::json& json);
  HuggingFaceConfig(const HuggingFaceConfig&) = delete;
  HuggingFaceConfig& operator=(const HuggingFaceConfig&) = delete;
  ~HuggingFaceConfig();

  bool is_reading() const { return is_reading_; }
  const nlohmann::json& json() const { return *json_; }

  // A value that must be there.
  template <class T>
  void required(const char* key, T& value) {
    if (!is_reading_) return set(key, value);
    need(key);
    get(key, value);
  }
  // A value that may be absent, and what that means.
  template <class T>
  void optional(const char* key, T& value, std::type_identity_t<T> absent) {
    if (!is_reading_) return set(key, value);
    value = std::move(absent);
    get(key, value);
  }
  // A number for which null stands where it is 0.
  void optional_or_null(const char* key, int64_t& value);
  // The same of one that is not 0 where it is absent.
  void optional_or_null(const char* key, double& value, double absent);
  // The only value that is implemented. When reading it may be absent.
  void fixed(const char* key, const nlohmann::json& value);
  // The same, and not written.
  void expected(const char* key, const nlohmann::json& value);
  // For other readers of the file.
  void written(const char* key, const nlohmann::json& value);
  // What stands in an object of its own. One that is absent is read as an empty one.
  void object(const char* key, const std::function<void(HuggingFaceConfig&)>& entries);

 private:
  void need(const char* key) const;
  void get(const char* key, int64_t& value) const;
  void get(const char* key, double& value) const;
  void get(const char* key, bool& value) const;
  void get(const char* key, std::string& value) const;
  void set(const char* key, int64_t value);
  void set(const char* key, double value);
  void set(const char* key, bool value);
  void set(const char* key, const std::string& value);

  bool is_reading_;
  std::unique_ptr<nlohmann::json> json_;
};

}  // namespace causeway::formats
