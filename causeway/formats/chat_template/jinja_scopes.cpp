#include "causeway/formats/chat_template/jinja_scopes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "causeway/formats/chat_template/jinja_filters.h"
#include "causeway/formats/chat_template/jinja_lexer.h"
#include "causeway/formats/chat_template/jinja_tests.h"

namespace causeway::formats {
namespace {

template <typename Visit>
void for_each_argument(const JinjaArguments& arguments, const Visit& visit) {
  for (const JinjaExpressionPtr& argument : arguments.positional) visit(*argument);
  for (const auto& [name, argument] : arguments.named) visit(*argument);
  for (const JinjaExpressionPtr* argument : {&arguments.more, &arguments.others})
    if (*argument != nullptr) visit(**argument);
}

template <typename Visit>
void for_each_operand(const JinjaExpression& expression, const Visit& visit) {
  for (const JinjaExpressionPtr& operand : expression.operands)
    if (operand != nullptr) visit(*operand);
  for_each_argument(expression.arguments, visit);
}

// Whether names of a text are read before the text itself gives them a meaning, blocks within it included.
class ReadNames {
 public:
  explicit ReadNames(std::set<std::string_view> names) : names_(std::move(names)) {}

  void visit(const JinjaBlock& block) {
    for (const JinjaStatementPtr& statement : block) visit(*statement);
  }
  bool has(std::string_view name) const { return read_.contains(name); }

 private:
  void visit(const JinjaExpression& expression) {
    if (expression.kind == JinjaExpressionKind::kVariable) {
      const auto name = names_.find(expression.name);
      if (name != names_.end()) read_.insert(*name);
    }
    for_each_operand(expression, [&](const JinjaExpression& operand) { visit(operand); });
  }
  void visit(const JinjaTarget& target) {
    for (const JinjaTarget& part : target.parts) visit(part);
    if (target.kind == JinjaTarget::Kind::kName) names_.erase(target.name);
  }
  void visit(const JinjaStatement& statement) {
    if (statement.kind != JinjaStatementKind::kMacro)
      for (const JinjaTarget& target : statement.targets) visit(target);
    for (const JinjaExpressionPtr& expression : statement.expressions)
      if (expression != nullptr) visit(*expression);
    if (statement.function != nullptr) {
      for (const std::string& parameter : statement.function->parameters) names_.erase(parameter);
      for (const JinjaExpressionPtr& value : statement.function->defaults) visit(*value);
      visit(statement.function->body);
    }
    for (const JinjaBlock& block : statement.blocks) visit(block);
  }

  std::set<std::string_view> names_, read_;
};

// A function as its slots are handed out.
struct FunctionSlots {
  JinjaFunctionBody* body = nullptr;
  int depth = 0;
};

// The names of a scope (a frame in Jinja's words, jinja2/idtracking.py): where each is held and how it begins.
class NameScope {
 public:
  NameScope(const NameScope* parent, FunctionSlots* function)
      : parent_(parent), function_(function), slots_(std::make_shared<std::map<std::string, int>>()) {}

  void load(const std::string& name) {
    if (!find(name)) define(name, {.kind = JinjaInitialValue::Kind::kContext, .name = name});
  }
  void store(const std::string& name) {
    stored_.insert(name);
    if (!held_.contains(name)) define(name, outer_value(name, JinjaInitialValue::Kind::kMissing));
  }
  void declare_parameter(const std::string& name) {
    stored_.insert(name);
    held_.insert(name);
    slot(name);
    initial_.erase(name);
  }

  // After branches, each of which began as a copy of this: what only some of them set keeps what it was before.
  void take_branches(const std::vector<NameScope>& branches) {
    std::set<std::string> stored;
    for (const NameScope& branch : branches) stored.insert(branch.stored_.begin(), branch.stored_.end());
    for (const std::string& name : stored_) stored.erase(name);
    for (const NameScope& branch : branches) {
      held_.insert(branch.held_.begin(), branch.held_.end());
      for (const auto& [name, value] : branch.initial_) initial_[name] = value;
      stored_.insert(branch.stored_.begin(), branch.stored_.end());
    }
    for (const std::string& name : stored) define(name, outer_value(name, JinjaInitialValue::Kind::kContext));
  }

  JinjaVariable variable(const std::string& name, const FunctionSlots& from) const {
    const std::optional<JinjaVariable> found = find(name);
    if (!found) return {};
    return {from.depth - found->function, found->slot};
  }

  JinjaScope initial_values() const {
    JinjaScope scope;
    for (const auto& [name, value] : initial_) {
      scope.push_back(value);
      scope.back().slot = slots_->at(name);
    }
    return scope;
  }

  FunctionSlots& function() const { return *function_; }

 private:
  int slot(const std::string& name) {
    const auto [place, is_new] = slots_->emplace(name, 0);
    if (is_new) place->second = function_->body->slots++;
    return place->second;
  }
  void define(const std::string& name, JinjaInitialValue value) {
    held_.insert(name);
    slot(name);
    initial_[name] = std::move(value);
  }
  JinjaInitialValue outer_value(const std::string& name, JinjaInitialValue::Kind otherwise) const {
    if (const std::optional<JinjaVariable> outer = parent_ == nullptr ? std::nullopt : parent_->find(name))
      return {.kind = JinjaInitialValue::Kind::kOuter, .outer = {function_->depth - outer->function, outer->slot}};
    return {.kind = otherwise, .name = name};
  }
  // With the depth of its function.
  std::optional<JinjaVariable> find(const std::string& name) const {
    if (held_.contains(name)) return JinjaVariable{function_->depth, slots_->at(name)};
    return parent_ == nullptr ? std::nullopt : parent_->find(name);
  }

  const NameScope* parent_;
  FunctionSlots* function_;
  std::shared_ptr<std::map<std::string, int>> slots_;  // one for all branches
  std::set<std::string> held_, stored_;
  std::map<std::string, JinjaInitialValue> initial_;
};

// Finds the names that belong to a scope; what opens a scope of its own is not looked into.
class NameCollector {
 public:
  explicit NameCollector(NameScope& scope) : scope_(&scope) {}

  void visit(const JinjaBlock& block) {
    for (const JinjaStatementPtr& statement : block) visit(*statement);
  }
  void visit(const JinjaExpression& expression) {
    if (expression.kind == JinjaExpressionKind::kVariable) scope_->load(expression.name);
    for_each_operand(expression, [&](const JinjaExpression& operand) { visit(operand); });
  }
  void visit(const JinjaTarget& target, bool is_parameter) {
    for (const JinjaTarget& part : target.parts) visit(part, is_parameter);
    if (target.kind == JinjaTarget::Kind::kMember) scope_->load(target.name);
    if (target.kind != JinjaTarget::Kind::kName) return;
    if (is_parameter)
      scope_->declare_parameter(target.name);
    else
      scope_->store(target.name);
  }

 private:
  void visit(const JinjaStatement& statement) {
    switch (statement.kind) {
      case JinjaStatementKind::kIf:
        return visit_if(statement);
      case JinjaStatementKind::kFor:
        return visit(*statement.expressions[0]);
      case JinjaStatementKind::kMacro:
      case JinjaStatementKind::kSetBlock:
        return visit(statement.targets[0], false);
      default:
        for (const JinjaExpressionPtr& expression : statement.expressions) visit(*expression);
        if (statement.kind == JinjaStatementKind::kSet) visit(statement.targets[0], false);
    }
  }

  // Jinja takes all elif together as one branch, one after another.
  void visit_if(const JinjaStatement& statement) {
    visit(*statement.expressions[0]);
    NameScope* const whole = scope_;
    std::vector<NameScope> branches(3, *whole);
    const size_t conditions = statement.expressions.size();
    scope_ = &branches[0];
    visit(statement.blocks[0]);
    scope_ = &branches[1];
    for (size_t i = 1; i < conditions; ++i) visit_elif(*statement.expressions[i], statement.blocks[i]);
    scope_ = &branches[2];
    if (statement.blocks.size() > conditions) visit(statement.blocks[conditions]);
    scope_ = whole;
    scope_->take_branches(branches);
  }
  void visit_elif(const JinjaExpression& condition, const JinjaBlock& block) {
    visit(condition);
    NameScope* const whole = scope_;
    std::vector<NameScope> branches(1, *whole);
    scope_ = &branches[0];
    visit(block);
    scope_ = whole;
    scope_->take_branches(branches);
  }

  NameScope* scope_;
};

class NameResolver {
 public:
  explicit NameResolver(ChatTemplateProgram& program) : program_(program) {}

  void run() {
    FunctionSlots function{&program_.root, 0};
    NameScope scope(nullptr, &function);
    NameCollector(scope).visit(program_.root.body);
    program_.root.scope = scope.initial_values();
    resolve(program_.root.body, scope, false);
  }

 private:
  void resolve(JinjaBlock& block, const NameScope& scope, bool is_soft) {
    for (const JinjaStatementPtr& statement : block) resolve(*statement, scope, is_soft);
  }

  // `is_soft`: whether it stands under a condition, where a filter that is not there counts only when it is reached.
  void resolve(JinjaExpression& expression, const NameScope& scope, bool is_soft) {
    if (expression.kind == JinjaExpressionKind::kVariable)
      expression.variable = scope.variable(expression.name, scope.function());
    is_soft = is_soft || expression.kind == JinjaExpressionKind::kConditional;
    if (expression.kind == JinjaExpressionKind::kFilter)
      check_filter_name(expression.name, is_soft, program_.where, expression.line);
    if (expression.kind == JinjaExpressionKind::kTest)
      check_test_name(expression.name, is_soft, program_.where, expression.line);
    const auto resolve_operand = [&](const JinjaExpressionPtr& operand) {
      if (operand != nullptr) resolve(*operand, scope, is_soft);
    };
    for (const JinjaExpressionPtr& operand : expression.operands) resolve_operand(operand);
    for (const JinjaExpressionPtr& argument : expression.arguments.positional) resolve_operand(argument);
    for (const auto& [name, argument] : expression.arguments.named) resolve_operand(argument);
    resolve_operand(expression.arguments.more);
    resolve_operand(expression.arguments.others);
  }

  void resolve(JinjaTarget& target, const NameScope& scope) {
    for (JinjaTarget& part : target.parts) resolve(part, scope);
    if (target.kind != JinjaTarget::Kind::kTuple) target.variable = scope.variable(target.name, scope.function());
  }

  void resolve(JinjaStatement& statement, const NameScope& scope, bool is_soft) {
    switch (statement.kind) {
      case JinjaStatementKind::kText:
      case JinjaStatementKind::kBreak:
      case JinjaStatementKind::kContinue:
        return;
      case JinjaStatementKind::kIf:
        for (const JinjaExpressionPtr& condition : statement.expressions) resolve(*condition, scope, true);
        for (JinjaBlock& block : statement.blocks) resolve(block, scope, true);
        return;
      case JinjaStatementKind::kFor:
        return resolve_for(statement, scope, is_soft);
      case JinjaStatementKind::kMacro:
      case JinjaStatementKind::kCallBlock:
      case JinjaStatementKind::kGeneration:
        for (const JinjaExpressionPtr& call : statement.expressions) resolve(*call, scope, is_soft);
        for (JinjaTarget& target : statement.targets) resolve(target, scope);
        return resolve_function(*statement.function, scope, statement.line);
      case JinjaStatementKind::kSetBlock:
      case JinjaStatementKind::kFilterBlock:
      case JinjaStatementKind::kWith:
        return resolve_block(statement, scope, is_soft);
      case JinjaStatementKind::kOutput:
      case JinjaStatementKind::kSet:
        for (const JinjaExpressionPtr& expression : statement.expressions) resolve(*expression, scope, is_soft);
        for (JinjaTarget& target : statement.targets) resolve(target, scope);
    }
  }

  void resolve_for(JinjaStatement& loop, const NameScope& scope, bool is_soft) {
    refuse_loop_as_target(loop);
    resolve(*loop.expressions[0], scope, is_soft);
    NameScope body(&scope, &scope.function());
    ReadNames read({"loop"});
    read.visit(loop.blocks[0]);
    if (read.has("loop")) body.declare_parameter("loop");
    NameCollector collector(body);
    collector.visit(loop.targets[0], true);
    collector.visit(loop.blocks[0]);
    if (read.has("loop")) loop.loop = body.variable("loop", scope.function());
    loop.scope = body.initial_values();
    loop.test_target = loop.targets[0];
    resolve(loop.targets[0], body);
    resolve(loop.blocks[0], body, false);
    if (loop.expressions[1] != nullptr) {
      NameScope test(&scope, &scope.function());
      NameCollector test_collector(test);
      test_collector.visit(loop.test_target, true);
      test_collector.visit(*loop.expressions[1]);
      loop.test_scope = test.initial_values();
      resolve(loop.test_target, test);
      resolve(*loop.expressions[1], test, false);
    }
    if (loop.blocks.size() < 2) return;
    NameScope otherwise(&scope, &scope.function());
    NameCollector(otherwise).visit(loop.blocks[1]);
    loop.else_scope = otherwise.initial_values();
    resolve(loop.blocks[1], otherwise, false);
  }

  void refuse_loop_as_target(const JinjaStatement& statement) const {
    for (const JinjaTarget& target : statement.targets) refuse_loop_as_target(target);
    for (const JinjaBlock& block : statement.blocks)
      for (const JinjaStatementPtr& inner : block) refuse_loop_as_target(*inner);
    if (statement.function != nullptr)
      for (const JinjaStatementPtr& inner : statement.function->body) refuse_loop_as_target(*inner);
  }
  void refuse_loop_as_target(const JinjaTarget& target) const {
    for (const JinjaTarget& part : target.parts) refuse_loop_as_target(part);
    if (target.kind == JinjaTarget::Kind::kName && target.name == "loop")
      throw_syntax_error("'loop' cannot be assigned to within a loop", program_.where, target.line);
  }

  void resolve_function(JinjaFunctionBody& body, const NameScope& outer, int line) {
    outer.function().body->makes_functions = true;
    FunctionSlots function{&body, outer.function().depth + 1};
    NameScope scope(&outer, &function);
    ReadNames read({"caller", "kwargs", "varargs"});
    read.visit(body.body);
    const auto has_parameter = [&](const char* name) {
      return std::ranges::find(body.parameters, name) != body.parameters.end();
    };
    if (read.has("caller") && has_parameter("caller"))
      throw_unsupported("a parameter called 'caller'", program_.where, line);
    std::vector<std::pair<std::string, JinjaVariable*>> special = {
        {"caller", &body.caller}, {"kwargs", &body.named}, {"varargs", &body.more}};
    std::erase_if(special,
                  [&](const auto& entry) { return !read.has(entry.first) || has_parameter(entry.first.c_str()); });
    for (const auto& [name, variable] : special) scope.declare_parameter(name);
    for (const std::string& parameter : body.parameters) scope.declare_parameter(parameter);
    NameCollector collector(scope);
    for (const JinjaExpressionPtr& value : body.defaults) collector.visit(*value);
    collector.visit(body.body);
    for (const auto& [name, variable] : special) *variable = scope.variable(name, function);
    for (const std::string& parameter : body.parameters)
      body.parameter_variables.push_back(scope.variable(parameter, function));
    body.scope = scope.initial_values();
    for (const JinjaExpressionPtr& value : body.defaults) resolve(*value, scope, false);
    resolve(body.body, scope, false);
  }

  void resolve_block(JinjaStatement& statement, const NameScope& scope, bool is_soft) {
    const bool is_with = statement.kind == JinjaStatementKind::kWith;
    NameScope inner(&scope, &scope.function());
    NameCollector collector(inner);
    if (is_with) {
      for (const JinjaExpressionPtr& value : statement.expressions) resolve(*value, scope, is_soft);
      for (const JinjaTarget& target : statement.targets) collector.visit(target, true);
    } else if (statement.expressions[0] != nullptr) {
      collector.visit(*statement.expressions[0]);
    }
    collector.visit(statement.blocks[0]);
    statement.scope = inner.initial_values();
    if (!is_with && statement.expressions[0] != nullptr) resolve(*statement.expressions[0], inner, false);
    for (JinjaTarget& target : statement.targets) resolve(target, is_with ? inner : scope);
    resolve(statement.blocks[0], inner, false);
  }

  ChatTemplateProgram& program_;
};

}  // namespace

void resolve_names(ChatTemplateProgram& program) { NameResolver(program).run(); }

}  // namespace causeway::formats
