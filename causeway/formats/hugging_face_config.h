// config.json of a Hugging Face directory. What stands in it is listed once, by a function that calls the entries below
// in turn; the same list reads a file and writes one, so that what is written can be read. The list names every key of
// the family's configuration class: what it does not name is nowhere known, and is carried along.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

// Every entry throws Error whose place is "config.json": kInvalidArgument for one that is missing or of an unexpected
// kind, kUnsupported, naming the option, for a value that is not implemented. Null is no number, unless the entry says
// what it stands for.
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
  void required(const std::string& key, T& value) {
    if (!is_reading_) return set(key, value);
    need(key);
    get(key, value);
  }
  // A value that may be absent, and what that means.
  template <class T>
  void optional(const std::string& key, T& value, std::type_identity_t<T> absent) {
    if (!is_reading_) return set(key, value);
    value = std::move(absent);
    get(key, value);
  }
  // The same of one that may be null too, and what that means.
  template <class T>
  void optional(const std::string& key, T& value, std::type_identity_t<T> absent, std::type_identity_t<T> null) {
    if (is_reading_ && is_null(key))
      value = std::move(null);
    else
      optional(key, value, std::move(absent));
  }
  // A number above 0, or null, which is 0 here.
  template <class T>
  void optional_or_null(const std::string& key, T& value, std::type_identity_t<T> absent) {
    if (!is_reading_ && value == 0) return written_null(key);
    optional(key, value, absent, 0);
    if (is_reading_ && value == 0 && find(key) != nullptr && !is_null(key)) fail_zero(key);
  }
  // The only value that is implemented, written as the first of its names. When reading it may be absent or null.
  void fixed(const std::string& key, const nlohmann::json& value);
  void fixed(const std::string& key, std::initializer_list<const char*> names);
  // The same, and not written.
  void expected(const std::string& key, const nlohmann::json& value);
  // For other readers of the file.
  void written(const std::string& key, const nlohmann::json& value);
  // A list of names; nothing where it is absent or null. Read alone.
  std::optional<std::vector<std::string>> names(const std::string& key);
  // What stands in an object of its own. One that is absent or null is read as an empty one.
  void object(const std::string& key, const std::function<void(HuggingFaceConfig&)>& entries);
  // Another name of a key, which counts where both are given.
  void alias(const std::string& alias, const std::string& key);

  // Keys that change no result of this program, and what their absence means; they are carried along where they say
  // something else.
  struct Usual {
    Usual(const char* name, const nlohmann::json& value);
    Usual(const Usual&);
    Usual& operator=(const Usual&) = delete;
    ~Usual();
    const char* key;
    std::unique_ptr<nlohmann::json> value;
  };
  void without_effect(std::initializer_list<Usual> keys);
  // Probabilities and the like that act in training alone, and which training here does not have.
  void training_only(std::initializer_list<Usual> keys);
  // Keys that others write, or that hold of this file alone.
  void not_carried(std::initializer_list<const char*> keys);

  // Of a file that was read, once everything is listed: what is carried along (an object), the names of what is nowhere
  // known ("ffn_config", "attn_config.rope"), and what only training would notice ("attn_pdrop = 0.1").
  nlohmann::json carried() const;
  std::vector<std::string> unknown() const;
  const std::vector<std::string>& only_in_training() const { return only_in_training_; }
  // Throws Error(kUnsupported) naming a key of this object, which is `name`'s, that nothing listed.
  void refuse_unknown(const std::string& name) const;
  // Writes what was carried: into objects where there are such, for the rest as it is.
  void merge(const nlohmann::json& carried);

 private:
  void need(const std::string& key);
  bool is_null(const std::string& key);
  // The entry, unless it is absent; null too is one.
  const nlohmann::json* find(const std::string& key);
  void written_null(const std::string& key);
  [[noreturn]] static void fail_zero(const std::string& key);
  void get(const std::string& key, int64_t& value);
  void get(const std::string& key, double& value);
  void get(const std::string& key, bool& value);
  void get(const std::string& key, std::string& value);
  void set(const std::string& key, int64_t value);
  void set(const std::string& key, double value);
  void set(const std::string& key, bool value);
  void set(const std::string& key, const std::string& value);
  void carry(const Usual& usual);

  bool is_reading_;
  std::unique_ptr<nlohmann::json> json_;
  std::set<std::string> listed_;
  std::unique_ptr<nlohmann::json> carried_;  // of listed keys and of objects
  std::vector<std::string> unknown_in_objects_, only_in_training_;
};

}  // namespace causeway::formats
