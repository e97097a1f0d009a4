#include "causeway/formats/chat_template/jinja_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/formats/chat_template/jinja_evaluator.h"
#include "causeway/formats/chat_template/jinja_loop.h"
#include "causeway/formats/chat_template/jinja_macro.h"
#include "causeway/formats/chat_template/jinja_operators.h"
#include "causeway/formats/chat_template/jinja_render_state.h"
#include "causeway/formats/chat_template/python_format.h"

namespace causeway::formats {
namespace {

// How a block ends.
enum class Flow { kOn, kBreak, kContinue };

class JinjaInterpreter : public JinjaMacroCaller {
 public:
  JinjaInterpreter(const ChatTemplateProgram& program, const ChatInput& input, const RenderingLimits& limits)
      : state_(program, input, limits), evaluator_(state_, *this) {}

  RenderedChat run() {
    try {
      const JinjaFunctionBody& root = state_.program.root;
      JinjaActivation activation{.slots = JinjaValues(static_cast<size_t>(root.slots))};
      state_.activation = &activation;
      enter(root.scope);
      run_block(root.body);
    } catch (const Error& error) {
      if (!error.where().empty()) throw;
      throw Error(error.kind(), "the chat template fails: " + error.message(),
                  fmt::format("{}:{}", state_.program.where, state_.line),
                  error.kind() == ErrorKind::kInvalidArgument
                      ? "Compare the conversation with what the template expects, or give another template."
                      : error.hint());
    }
    return rendered();
  }

  JinjaValue call_macro(const JinjaMacro& macro, const JinjaCallArguments& arguments) override {
    const JinjaFunctionBody& body = *macro.body;
    const int32_t turn = std::exchange(state_.turn, turn_of(arguments));
    JinjaValue result = JinjaValue::string(in_function(body, macro.outer, [&] {
      bind(macro, arguments);
      return capture(body.body);
    }));
    state_.turn = turn;
    state_.count_bytes(result.text().size());
    return result;
  }

 private:
  // Runs `work` with variables of its own.
  template <typename Work>
  MarkedText in_function(const JinjaFunctionBody& body, JinjaActivation* outer, const Work& work) {
    const InterpreterDepth depth(state_);
    JinjaActivation own;
    JinjaActivation& activation = body.makes_functions ? state_.kept.emplace_back() : own;
    activation.slots.resize(static_cast<size_t>(body.slots));
    activation.outer = outer;
    JinjaActivation* const before = std::exchange(state_.activation, &activation);
    enter(body.scope);
    MarkedText text = work();
    state_.activation = before;
    return text;
  }

  // The message that a macro works on: the latest that its arguments are of. Never one before the current, of which a
  // template takes what the current one lacks, as the name of the tool that answers.
  int32_t turn_of(const JinjaCallArguments& arguments) const {
    int32_t turn = state_.turn;
    for (const JinjaValue& value : arguments.positional) turn = std::max(turn, value.mark().message);
    for (const auto& [name, value] : arguments.named) turn = std::max(turn, value.mark().message);
    return turn;
  }

  void bind(const JinjaMacro& macro, JinjaCallArguments arguments) {
    const JinjaFunctionBody& body = *macro.body;
    const size_t count = body.parameters.size();
    std::vector<bool> is_given(count);
    for (size_t i = 0; i < count; ++i) {
      JinjaValue& parameter = evaluator_.slot(body.parameter_variables[i]);
      const auto named =
          std::ranges::find(arguments.named, body.parameters[i], &std::pair<std::string, JinjaValue>::first);
      is_given[i] = true;
      if (i < arguments.positional.size()) {
        parameter = arguments.positional[i];
      } else if (named != arguments.named.end()) {
        parameter = std::move(named->second);
        arguments.named.erase(named);
      } else {
        is_given[i] = false;
      }
    }
    bind_special(macro, arguments);
    for (size_t i = 0; i < count; ++i) {
      if (is_given[i]) continue;
      const size_t without_default = count - body.defaults.size();
      JinjaValue value = i < without_default
                             ? JinjaValue::undefined(fmt::format("parameter '{}' was not provided", body.parameters[i]))
                             : evaluator_.evaluate(*body.defaults[i - without_default]);
      evaluator_.slot(body.parameter_variables[i]) = std::move(value);
    }
  }

  // caller, kwargs and varargs.
  void bind_special(const JinjaMacro& macro, JinjaCallArguments& arguments) {
    const JinjaFunctionBody& body = *macro.body;
    if (body.caller.function >= 0) {
      const auto caller = std::ranges::find(arguments.named, "caller", &std::pair<std::string, JinjaValue>::first);
      const bool has_caller = caller != arguments.named.end();
      evaluator_.slot(body.caller) = has_caller ? caller->second : JinjaValue::undefined("No caller defined");
      if (has_caller) arguments.named.erase(caller);
    }
    if (body.named.function >= 0) {
      auto dict = std::make_shared<JinjaDict>();
      for (const auto& [name, value] : arguments.named) dict->set(JinjaValue::string(name, TextMark{}), value);
      evaluator_.slot(body.named) = JinjaValue::object(JinjaKind::kDict, std::move(dict));
    } else if (!arguments.named.empty()) {
      throw_template_error(
          fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, arguments.named[0].first));
    }
    const size_t count = body.parameters.size();
    const bool has_more = arguments.positional.size() > count;
    if (body.more.function >= 0)
      evaluator_.slot(body.more) =
          JinjaValue::tuple(has_more ? JinjaValues(arguments.positional.begin() + static_cast<ptrdiff_t>(count),
                                                   arguments.positional.end())
                                     : JinjaValues());
    else if (has_more)
      throw_template_error(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, count));
  }

  void enter(const JinjaScope& scope) {
    for (const JinjaInitialValue& initial : scope) {
      JinjaValue& slot = state_.activation->slots[static_cast<size_t>(initial.slot)];
      switch (initial.kind) {
        case JinjaInitialValue::Kind::kContext:
          slot = state_.resolve(initial.name);
          break;
        case JinjaInitialValue::Kind::kOuter:
          slot = JinjaValue(evaluator_.slot(initial.outer));
          break;
        case JinjaInitialValue::Kind::kMissing:
          slot = JinjaValue();
      }
    }
  }

  MarkedText capture(const JinjaBlock& block, Flow* flow = nullptr) {
    MarkedText text;
    MarkedText* const before = std::exchange(output_, &text);
    const Flow end = run_block(block);
    output_ = before;
    if (flow != nullptr) *flow = end;
    return text;
  }

  void write(const MarkedText& text) {
    check_text_size(output_->size() + text.size());
    size_t begin = 0;
    for (const MarkedText::Run& run : text.runs()) {
      TextMark mark = run.mark;
      // A loop over numbers that writes something of a message works on that one from there on.
      if (loops_ > 0 && state_.turn < 0 && mark.message >= 0) state_.turn = mark.message;
      if (mark.is_literal())
        mark.turn = std::max(mark.turn, state_.turn);
      else if (mark.turn < 0)
        mark.turn = state_.turn >= 0 ? state_.turn : mark.message;
      mark.in_generation_prompt = mark.in_generation_prompt || state_.in_generation_prompt;
      output_->append(std::string_view(text.bytes()).substr(begin, run.end - begin), mark);
      begin = run.end;
    }
  }

  Flow run_block(const JinjaBlock& block) {
    for (const JinjaStatementPtr& statement : block)
      if (const Flow flow = run_statement(*statement); flow != Flow::kOn) return flow;
    return Flow::kOn;
  }

  Flow run_statement(const JinjaStatement& statement) {
    const InterpreterDepth depth(state_);
    state_.count_step(statement.line);
    switch (statement.kind) {
      case JinjaStatementKind::kText:
        write(MarkedText(statement.text, state_.literal_mark()));
        return Flow::kOn;
      case JinjaStatementKind::kOutput:
        for (const JinjaExpressionPtr& expression : statement.expressions)
          write(python_str(evaluator_.evaluate(*expression)));
        return Flow::kOn;
      case JinjaStatementKind::kIf:
        return run_if(statement);
      case JinjaStatementKind::kFor:
        return run_for(statement);
      case JinjaStatementKind::kSet:
        assign(statement.targets[0], evaluator_.evaluate(*statement.expressions[0]));
        return Flow::kOn;
      case JinjaStatementKind::kSetBlock:
      case JinjaStatementKind::kFilterBlock:
        return run_captured(statement);
      case JinjaStatementKind::kMacro:
        assign(statement.targets[0], macro_of(statement, statement.targets[0].name));
        return Flow::kOn;
      case JinjaStatementKind::kCallBlock:
        write(python_str(evaluator_.call_with(*statement.expressions[0], macro_of(statement, "caller"))));
        return Flow::kOn;
      case JinjaStatementKind::kGeneration:
        run_generation(*statement.function);
        return Flow::kOn;
      case JinjaStatementKind::kWith:
        return run_with(statement);
      case JinjaStatementKind::kBreak:
        return Flow::kBreak;
      case JinjaStatementKind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kOn;
  }

  JinjaValue macro_of(const JinjaStatement& statement, const std::string& name) const {
    auto macro = std::make_shared<JinjaMacro>();
    macro->body = statement.function.get();
    macro->outer = state_.activation;
    macro->name = name;
    return JinjaValue::object(JinjaKind::kMacro, std::move(macro));
  }

  Flow run_if(const JinjaStatement& statement) {
    size_t taken = 0;
    while (taken < statement.expressions.size() && !evaluator_.holds(*statement.expressions[taken])) ++taken;
    if (taken >= statement.blocks.size()) return Flow::kOn;
    const bool before = state_.in_generation_prompt;
    if (state_.input.add_generation_prompt && statement.is_generation_prompt[taken]) state_.in_generation_prompt = true;
    const Flow flow = run_block(statement.blocks[taken]);
    state_.in_generation_prompt = before;
    return flow;
  }

  // The items of a loop that its condition lets through.
  class FilteredSource : public JinjaLoopSource {
   public:
    FilteredSource(JinjaInterpreter& interpreter, const JinjaStatement& loop, const JinjaValue& iterable)
        : interpreter_(interpreter), loop_(loop), items_(iterable) {}

    std::optional<JinjaValue> next() override {
      const JinjaExpression* condition = loop_.expressions[1].get();
      while (std::optional<JinjaValue> item = items_.next()) {
        interpreter_.state_.count_step(loop_.line);
        if (condition == nullptr) return item;
        if (!std::exchange(has_begun_, true)) interpreter_.enter(loop_.test_scope);
        interpreter_.assign(loop_.test_target, *item);
        if (interpreter_.evaluator_.holds(*condition)) return item;
      }
      return std::nullopt;
    }
    std::optional<size_t> length() const override {
      return loop_.expressions[1] == nullptr ? items_.length() : std::nullopt;
    }

   private:
    JinjaInterpreter& interpreter_;
    const JinjaStatement& loop_;
    JinjaItems items_;
    bool has_begun_ = false;
  };

  Flow run_for(const JinjaStatement& statement) {
    FilteredSource source(*this, statement, evaluator_.evaluate(*statement.expressions[0]));
    JinjaLoopState loop(source);
    const auto reference = std::make_shared<JinjaLoopReference>();
    reference->state = &loop;
    const int32_t turn = state_.turn;
    bool is_empty = true;
    try {
      while (const std::optional<JinjaValue> item = loop.advance()) {
        is_empty = false;
        state_.turn = std::max(turn, item->mark().message);
        ++loops_;
        enter(statement.scope);
        if (statement.loop.function >= 0)
          evaluator_.slot(statement.loop) = JinjaValue::object(JinjaKind::kLoop, reference);
        assign(statement.targets[0], *item);
        const Flow flow = run_block(statement.blocks[0]);
        --loops_;
        if (flow == Flow::kBreak) break;
      }
    } catch (...) {
      reference->state = nullptr;
      throw;
    }
    reference->state = nullptr;
    state_.turn = turn;
    if (!is_empty || statement.blocks.size() < 2) return Flow::kOn;
    enter(statement.else_scope);
    return run_block(statement.blocks[1]);
  }

  void assign(const JinjaTarget& target, const JinjaValue& value) {
    switch (target.kind) {
      case JinjaTarget::Kind::kName:
        evaluator_.slot(target.variable) = value;
        // A loop over numbers that then takes a message works on that one.
        if (loops_ > 0 && state_.turn < 0 && value.is(JinjaKind::kDict) && value.mark().message >= 0 &&
            value.mark().field == 0)
          state_.turn = value.mark().message;
        return;
      case JinjaTarget::Kind::kMember: {
        const JinjaValue space = evaluator_.slot(target.variable);
        if (!space.is(JinjaKind::kNamespace)) throw_template_error("cannot assign attribute on non-namespace object");
        check_member_name(target.member);
        space.as<JinjaNamespaceReference>().target->set(target.member, value);
        return;
      }
      case JinjaTarget::Kind::kTuple:
        break;
    }
    const JinjaValues parts = items_of(value);
    const size_t wanted = target.parts.size();
    if (parts.size() > wanted) throw_template_error(fmt::format("too many values to unpack (expected {})", wanted));
    if (parts.size() < wanted)
      throw_template_error(fmt::format("not enough values to unpack (expected {}, got {})", wanted, parts.size()));
    for (size_t i = 0; i < wanted; ++i) assign(target.parts[i], parts[i]);
  }

  // {% set name %} and {% filter %}.
  Flow run_captured(const JinjaStatement& statement) {
    enter(statement.scope);
    Flow flow = Flow::kOn;
    JinjaValue text = JinjaValue::string(capture(statement.blocks[0], &flow));
    if (flow != Flow::kOn) return flow;
    state_.count_bytes(text.text().size());
    if (statement.expressions[0] != nullptr) text = evaluator_.filtered(*statement.expressions[0], text);
    if (statement.kind == JinjaStatementKind::kFilterBlock)
      write(python_str(text));
    else
      assign(statement.targets[0], text);
    return Flow::kOn;
  }

  void run_generation(const JinjaFunctionBody& body) {
    MarkedText text = in_function(body, state_.activation, [&] {
      if (body.caller.function >= 0) evaluator_.slot(body.caller) = JinjaValue::undefined("No caller defined");
      return capture(body.body);
    });
    text.change_marks([](TextMark& mark) { mark.in_generation = true; });
    write(text);
  }

  Flow run_with(const JinjaStatement& statement) {
    enter(statement.scope);
    for (size_t i = 0; i < statement.targets.size(); ++i)
      assign(statement.targets[i], evaluator_.evaluate(*statement.expressions[i]));
    return run_block(statement.blocks[0]);
  }

  RenderedChat rendered() const {
    RenderedChat chat{.text = text_.bytes(), .spans = {}, .used_date = state_.used_date};
    size_t begin = 0;
    for (const MarkedText::Run& run : text_.runs()) {
      chat.spans.push_back({.begin = begin,
                            .end = run.end,
                            .message = run.mark.message,
                            .field = state_.fields.name(run.mark.field),
                            .turn = run.mark.turn,
                            .in_generation = run.mark.in_generation,
                            .in_generation_prompt = run.mark.in_generation_prompt});
      begin = run.end;
    }
    return chat;
  }

  JinjaRenderState state_;
  JinjaEvaluator evaluator_;
  MarkedText text_;
  MarkedText* output_ = &text_;
  int loops_ = 0;  // around what is run
};

}  // namespace

RenderedChat run_template(const ChatTemplateProgram& program, const ChatInput& input, const RenderingLimits& limits) {
  return JinjaInterpreter(program, input, limits).run();
}

RenderingLimits limits_of(size_t messages) {
  const uint64_t count = messages;
  return {.steps = 4'000'000 + 20'000 * count + 100 * count * count, .bytes = uint64_t{1} << 30};
}

}  // namespace causeway::formats
