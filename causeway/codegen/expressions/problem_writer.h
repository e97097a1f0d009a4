// Writers of kernels that instantiate a hand-written template: they describe the problem to it as a struct whose member
// functions load operands (with whatever computation leads to them) and store results (with whatever follows).
#pragma once

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/kernel_writer.h"

namespace causeway::codegen {

class ProblemWriter : public KernelWriter {
 public:
  using KernelWriter::KernelWriter;

 protected:
  static constexpr int kBodyDepth = 1;

  // A parameter of a member function as a loop variable.
  int parameter(const std::string& name, const Dim& extent) {
    variables_.push_back({name, extent, kBodyDepth});
    return static_cast<int>(variables_.size()) - 1;
  }

  // `const`-qualified member function whose body emits `value` at `position` and returns it.
  std::string load_function(const std::string& signature, Value value, const ElementPosition& position) {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    const EmittedValue result = emitter.emit(value, position);
    return signature + " const {\n" + body(emitter) + "return " + result.name + ";\n}\n";
  }

  static std::string body(ExpressionEmitter& emitter) {
    const std::string top = emitter.take_statements(0);
    return top + emitter.take_statements(kBodyDepth);
  }

  // Members and constructor: the pointers and sizes used by the functions written so far.
  std::string problem_members(const std::string& more_members, const std::string& more_initialisation) {
    std::string members, initialisation;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].kind != KernelArgument::Kind::kValue) continue;
      const std::string type =
          (arguments_[i].written ? "" : "const ") + storage_type(graph_.dtype(arguments_[i].value));
      members += fmt::format("{}* b{};\n", type, i);
      initialisation += fmt::format("b{} = {};\n", i, buffer_pointer(type, i));
    }
    for (size_t i = 0; i < symbols_.symbols().size(); ++i) {
      members += fmt::format("int64_t d{};\n", i);
      initialisation += fmt::format("d{} = sizes[{}];\n", i, sizes_.size() + i);
    }
    return members + more_members + "Problem(void* const* buffers, const int64_t* sizes) {\n" + initialisation +
           more_initialisation + "}\n";
  }

  // Declares a size of the problem: a compile-time constant where it is known.
  void declare_size(const std::string& name, const Dim& size, std::string& members, std::string& initialisation) {
    if (size.is_constant()) {
      members += fmt::format("static constexpr int64_t {} = {};\n", name, size.constant());
    } else {
      members += fmt::format("int64_t {};\n", name);
      initialisation += fmt::format("{} = {};\n", name, symbols_.text(size));
    }
  }

  static std::string entry_point(const std::string& name, const std::string& call) {
    return fmt::format(
        "extern \"C\" void {}(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch) {{\n"
        "const Problem problem(buffers, sizes);\n{}\n}}\n",
        name, call);
  }
};

}  // namespace causeway::codegen
