// The values of templates: Python's, as far as a template can reach them.
//
// Lists and dictionaries do not change once they are made (the sandbox forbids it); what changes are namespaces and the
// position of iterators. Integers have 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "causeway/formats/chat_template/marked_text.h"

namespace causeway::formats {

enum class JinjaKind : uint8_t {
  kUndefined,
  kNone,
  kBoolean,
  kInteger,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kIterator,  // what filters such as map and select give: its items can be taken once
  kKeys,      // a dictionary's keys(), and values() and items()
  kValues,
  kItems,
  kRange,
  kNamespace,
  kLoop,  // the variable `loop`
  kMacro,
  kMethod,    // of a value: "strip" of a string
  kFunction,  // range, namespace, ...
};

class JinjaValue;
using JinjaValues = std::vector<JinjaValue>;

// Base of what a value refers to.
struct JinjaObject {
  virtual ~JinjaObject() = default;
};

class JinjaValue {
 public:
  JinjaValue() = default;  // undefined, without a name
  static JinjaValue none(const TextMark& mark = {});
  static JinjaValue boolean(bool value, const TextMark& mark = {});
  static JinjaValue integer(int64_t value, const TextMark& mark = {});
  static JinjaValue floating(double value, const TextMark& mark = {});
  static JinjaValue string(MarkedText text, bool is_markup = false);
  // `mark` is that of an empty text.
  static JinjaValue string(std::string bytes, const TextMark& mark);
  // Throw Error where lists are nested deeper than kMostNesting.
  static JinjaValue list(JinjaValues items, const TextMark& mark = {});
  static JinjaValue tuple(JinjaValues items, const TextMark& mark = {});
  static JinjaValue iterator(JinjaValues items, const TextMark& mark = {});
  static JinjaValue object(JinjaKind kind, std::shared_ptr<const JinjaObject> object, const TextMark& mark = {});
  // What is undefined, and what a template is told that uses it nevertheless.
  static JinjaValue undefined(std::string message, bool is_forbidden = false);

  JinjaKind kind() const { return kind_; }
  bool is(JinjaKind kind) const { return kind_ == kind; }
  bool is_number() const {
    return kind_ == JinjaKind::kBoolean || kind_ == JinjaKind::kInteger || kind_ == JinjaKind::kFloat;
  }
  bool is_whole() const { return kind_ == JinjaKind::kBoolean || kind_ == JinjaKind::kInteger; }

  const TextMark& mark() const { return mark_; }
  JinjaValue with_mark(const TextMark& mark) const;

  // Each for its kind alone.
  bool as_boolean() const { return integer_ != 0; }
  int64_t as_integer() const { return integer_; }  // of booleans too
  double as_float() const;                         // of every number
  const MarkedText& text() const;
  const std::string& bytes() const { return text().bytes(); }
  bool is_markup() const;            // a string that `safe` made: joined to others it escapes them
  const JinjaValues& items() const;  // of lists and tuples
  template <typename Object>
  const Object& as() const {
    return static_cast<const Object&>(*object_);
  }
  const JinjaObject* identity() const { return object_.get(); }

 private:
  JinjaKind kind_ = JinjaKind::kUndefined;
  union {
    int64_t integer_ = 0;
    double float_;
  };
  std::shared_ptr<const JinjaObject> object_;
  TextMark mark_;
};

inline constexpr int kMostNesting = 400;

struct JinjaUndefined : JinjaObject {
  std::string message;
  bool is_forbidden = false;  // the sandbox's, not merely absent
};

struct JinjaString : JinjaObject {
  MarkedText text;
  bool is_markup = false;
};

struct JinjaList : JinjaObject {
  JinjaValues items;
  int nesting = 1;
};

struct JinjaIterator : JinjaObject {
  JinjaValues items;
  mutable size_t position = 0;
  int nesting = 1;
};

// In the order in which keys were added. Keys that are equal are one (1, 1.0 and true are).
class JinjaDict : public JinjaObject {
 public:
  using Entry = std::pair<JinjaValue, JinjaValue>;

  // Replaces the value of a key that is there. Throws Error for a key that Python cannot hash, or too deep nesting.
  void set(JinjaValue key, JinjaValue value);
  const JinjaValue* find(const JinjaValue& key) const;
  const JinjaValue* find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  int nesting() const { return nesting_; }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> places_;  // by key_name()
  int nesting_ = 1;
};

// keys(), values() and items().
struct JinjaView : JinjaObject {
  JinjaValue dict;
};

struct JinjaRange : JinjaObject {
  int64_t start = 0, stop = 0, step = 1;
  size_t count = 0;
  int64_t at(size_t index) const { return start + static_cast<int64_t>(index) * step; }
};

// Owned by the renderer, which a value outlives nowhere: a namespace may hold itself.
struct JinjaNamespace {
  std::vector<std::pair<std::string, JinjaValue>> members;

  JinjaValue* find(std::string_view name);
  void set(std::string_view name, JinjaValue value);
};
struct JinjaNamespaceReference : JinjaObject {
  JinjaNamespace* target = nullptr;
};

struct JinjaMethod : JinjaObject {
  JinjaValue self;
  std::string name;
};

struct JinjaFunction : JinjaObject {
  std::string name;
};

// What Python calls the type ("str"), and Jinja an object of it ("str object", "None").
std::string_view type_name(const JinjaValue& value);
std::string object_name(const JinjaValue& value);

bool is_true(const JinjaValue& value);
bool is_equal(const JinjaValue& left, const JinjaValue& right);

// Less than, equal or greater: negative, 0, positive. Throws Error for what Python does not order; `symbol` is the
// operator, for its message.
int compare_values(const JinjaValue& left, const JinjaValue& right, std::string_view symbol);

// A mistake of the template or of the conversation: an Error without place, which the interpreter adds.
[[noreturn]] void throw_template_error(std::string message);
[[noreturn]] void throw_undefined(const JinjaValue& value);

}  // namespace causeway::formats
