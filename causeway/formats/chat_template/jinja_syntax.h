// A parsed template: what the parser builds, the scopes resolve, the interpreter walks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

// A variable: `function` activations outwards (a macro's own: 0), then the place there.
struct JinjaVariable {
  int function = -1;  // -1: not resolved
  int slot = -1;
};

struct JinjaExpression;
using JinjaExpressionPtr = std::unique_ptr<JinjaExpression>;

// (a, b, *more, name=c, **others)
struct JinjaArguments {
  std::vector<JinjaExpressionPtr> positional;
  std::vector<std::pair<std::string, JinjaExpressionPtr>> named;
  JinjaExpressionPtr more, others;
};

enum class JinjaExpressionKind : uint8_t {
  kConstant,
  kVariable,     // name
  kList,         // operands
  kTuple,        // operands
  kDict,         // operands: key, value, key, value
  kAttribute,    // operands[0].name
  kItem,         // operands[0][operands[1]]
  kSlice,        // operands: start, stop, step, each may be null; the index of an item
  kCall,         // operands[0](arguments)
  kFilter,       // operands[0] | name(arguments); operands[0] is null for the text of a block
  kTest,         // operands[0] is name(arguments)
  kConditional,  // operands[1] if operands[0] else operands[2], which may be null
  kAnd,
  kOr,
  kNot,
  kCompare,  // operands[0] then for each of `names` an operand: a < b <= c
  kConcat,   // operands joined by ~
  kBinary,   // operands[0] name operands[1]: + - * / // % **
  kUnary,    // name operands[0]: + -
};

struct JinjaExpression {
  JinjaExpressionKind kind = JinjaExpressionKind::kConstant;
  int line = 0;
  std::string name;
  std::vector<std::string> names;
  std::vector<JinjaExpressionPtr> operands;
  JinjaArguments arguments;
  JinjaValue constant;
  JinjaVariable variable;
  int height = 1;  // of the tree below
  // Of kConditional: which of operands 1 and 2 is taken because add_generation_prompt is set; 0: neither.
  int generation_prompt_operand = 0;
};

// What is assigned to: a name, ns.name or several.
struct JinjaTarget {
  enum class Kind : uint8_t { kName, kMember, kTuple };
  Kind kind = Kind::kName;
  int line = 0;
  std::string name = {};  // of the namespace, for a member
  std::string member = {};
  std::vector<JinjaTarget> parts = {};
  JinjaVariable variable = {};
};

// How a variable of a scope begins when the scope is entered.
struct JinjaInitialValue {
  enum class Kind : uint8_t { kContext, kOuter, kMissing };
  Kind kind = Kind::kMissing;
  int slot = 0;
  std::string name = {};     // kContext: what it is called in the input
  JinjaVariable outer = {};  // kOuter: a copy of this
};
using JinjaScope = std::vector<JinjaInitialValue>;

struct JinjaStatement;
using JinjaStatementPtr = std::unique_ptr<JinjaStatement>;
using JinjaBlock = std::vector<JinjaStatementPtr>;

// What has variables of its own: the template, a macro, the block of a call. Activations hold `slots` values.
struct JinjaFunctionBody {
  JinjaBlock body;
  int slots = 0;
  bool makes_functions = false;  // what is within it may outlive its call
  JinjaScope scope;

  // Of macros and call blocks.
  std::vector<std::string> parameters;
  std::vector<JinjaVariable> parameter_variables;
  std::vector<JinjaExpressionPtr> defaults;  // of the last parameters
  // The special variables that the body reads.
  JinjaVariable caller, named, more;
};

enum class JinjaStatementKind : uint8_t {
  kText,         // text
  kOutput,       // expressions
  kIf,           // expressions[i] decides on blocks[i]; a last block without expression is `else`
  kFor,          // target in expressions[0], where expressions[1] (may be null) holds: blocks[0], else blocks[1]
  kSet,          // target = expressions[0]
  kSetBlock,     // target = blocks[0], through expressions[0] where that is not null
  kFilterBlock,  // blocks[0] through expressions[0]
  kMacro,        // target.name
  kCallBlock,    // expressions[0] is the call
  kGeneration,   // {% generation %}: function
  kWith,         // targets and expressions, blocks[0]
  kBreak,
  kContinue,
};

struct JinjaStatement {
  JinjaStatementKind kind = JinjaStatementKind::kText;
  int line = 0;
  std::string text;
  std::vector<JinjaExpressionPtr> expressions;
  std::vector<JinjaBlock> blocks;
  std::vector<JinjaTarget> targets;
  std::unique_ptr<JinjaFunctionBody> function;
  // Of loops: of the body, of `else`, of the condition; of the other blocks the first.
  JinjaScope scope, else_scope, test_scope;
  JinjaTarget test_target;  // the loop's target as the condition sees it
  JinjaVariable loop;       // the variable `loop`, where the body reads it
  bool is_recursive = false;
  // Of `if`: which branches are taken because add_generation_prompt is set.
  std::vector<bool> is_generation_prompt;
};

class ChatTemplateProgram {
 public:
  std::string where;
  std::string text;  // the template itself
  JinjaFunctionBody root;
  bool has_generation_marks = false;
};

}  // namespace causeway::formats
