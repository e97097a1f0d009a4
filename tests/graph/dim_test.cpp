#include "causeway/graph/dim.h"

#include <gtest/gtest.h>

#include "causeway/base/error.h"

namespace causeway::graph {
namespace {

const Dim kB = Dim::symbol("B"), kT = Dim::symbol("T"), kT64 = Dim::symbol("T", 64);

std::string parse_error(const std::string& text) {
  try {
    Dim::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  }
  return "no error";
}

TEST(Dim, ArithmeticIsThatOfPolynomials) {
  EXPECT_EQ(kB + kT, kT + kB);
  EXPECT_EQ((kB + 1) * (kB - 1), kB * kB - 1);
  EXPECT_EQ(kB * (kT + 2) - kB * kT, kB * 2);
  EXPECT_EQ(kB - kB, Dim(0));
  EXPECT_TRUE((kB - kB).is_constant());
  EXPECT_TRUE((kB * 0).is_constant(0));
  EXPECT_NE(kB, kT);
  EXPECT_NE(kT, kT64);
}

TEST(Dim, EvaluateAndSubstitute) {
  const int32_t b = kB.symbols()[0], t = kT.symbols()[0];
  EXPECT_EQ((kB * kB * kT * 3 + kT - 7).evaluate({{b, 2}, {t, 5}}), 3 * 4 * 5 + 5 - 7);
  EXPECT_EQ((kB * kT + kB).substitute({{t, 4}}), kB * 5);
  EXPECT_EQ((kB * kT + 1).substitute({{b, 2}, {t, 3}}).constant(), 7);
  EXPECT_EQ(kT64.evaluate({{Dim::symbol_id("T/64"), 3}}), 192);
  EXPECT_THROW(kB.evaluate({}), InternalError);
  EXPECT_THROW(kB.constant(), InternalError);
}

TEST(Dim, SymbolsAreListedOnce) {
  EXPECT_EQ((kB * kB + kB * kT).symbols().size(), 2u);
  EXPECT_TRUE(Dim(3).symbols().empty());
  EXPECT_EQ(Dim::symbol_name(kB.symbols()[0]), "B");
  EXPECT_EQ(Dim::symbol("B"), kB);
}

TEST(Dim, DivideExactly) {
  EXPECT_EQ(Dim(12).divide_exactly(4), Dim(3));
  EXPECT_EQ(Dim(12).divide_exactly(5), std::nullopt);
  EXPECT_EQ(Dim(12).divide_exactly(0), std::nullopt);
  EXPECT_EQ(Dim(0).divide_exactly(5), Dim(0));
  EXPECT_EQ((kB * kT * 6).divide_exactly(kT * 2), kB * 3);
  EXPECT_EQ((kB * kT).divide_exactly(kB), kT);
  EXPECT_EQ((kB * kB).divide_exactly(kB), kB);
  EXPECT_EQ(kB.divide_exactly(kB * kB), std::nullopt);
  EXPECT_EQ((kB * 6 + 4).divide_exactly(2), kB * 3 + 2);
  EXPECT_EQ((kB * 6 + 3).divide_exactly(2), std::nullopt);
  EXPECT_EQ((kB + 1).divide_exactly(kB + 1), Dim(1));
  EXPECT_EQ(kT.divide_exactly(2), std::nullopt);
  EXPECT_EQ(kT64.divide_exactly(16), Dim::symbol("T/64") * 4);
  EXPECT_EQ((kB * kT64).divide_exactly(kB * 64), Dim::symbol("T/64"));
}

TEST(Dim, TextIsCanonicalAndParsesBack) {
  EXPECT_EQ((kT * kB * 3 + 1).text(), "3*B*T + 1");
  EXPECT_EQ((kT - kB).text(), "-B + T");
  EXPECT_EQ((kB * -2 - 5).text(), "-2*B - 5");
  EXPECT_EQ(kT64.text(), "64*T/64");
  EXPECT_EQ(Dim(-4).text(), "-4");
  EXPECT_EQ(shape_text({kB, kT * 2, 64}), "[B, 2*T, 64]");
  EXPECT_EQ(shape_text({}), "[]");
  for (const Dim& dim :
       {Dim(0), Dim(-7), kB, kB * kT * 3 + 1, kT - kB * kB - 5, kT64 * kB + kT64, (kB + kT) * (kB - 3)})
    EXPECT_EQ(Dim::parse(dim.text()), dim) << dim.text();
  EXPECT_EQ(Dim::parse(" 2*3*B - B "), kB * 5);
}

TEST(Dim, ParseErrorsSayWhatIsWrong) {
  EXPECT_EQ(parse_error(""), "cannot read the dimension '': it is empty");
  EXPECT_EQ(parse_error("3 B"), "cannot read the dimension '3 B': expected + or -");
  EXPECT_EQ(parse_error("B*"), "cannot read the dimension 'B*': expected a number or a name");
  EXPECT_EQ(parse_error("?"), "cannot read the dimension '?': expected a number or a name");
  EXPECT_EQ(parse_error("99999999999999999999"),
            "cannot read the dimension '99999999999999999999': a number is too large");
  EXPECT_EQ(parse_error("-9223372036854775807 - 1"), "a size does not fit in 64 bits");
  EXPECT_EQ(parse_error("4000000000*4000000000*4000000000"), "a size does not fit in 64 bits");
}

TEST(Dim, ShapesCountAndStride) {
  EXPECT_EQ(element_count(Shape{}), Dim(1));
  EXPECT_EQ(element_count(Shape{kB, kT, 4}), kB * kT * 4);
  EXPECT_EQ(row_major_strides({kB, kT, 4}), (Shape{kT * 4, 4, 1}));
  EXPECT_THROW(element_count(Shape{int64_t{1} << 40, int64_t{1} << 40}), Error);
}

TEST(Dim, OrderIsTotal) {
  const std::vector<Dim> dims = {Dim(1), Dim(2), kB, kT, kB * kT, kB + 1, kB * 2};
  for (const Dim& a : dims)
    for (const Dim& b : dims) EXPECT_EQ((a < b) + (b < a) + (a == b), 1) << a.text() << " and " << b.text();
}

TEST(Dim, TheLargestNumbersSurviveTheirText) {
  for (const int64_t value : {INT64_MAX, INT64_MAX - 2, -INT64_MAX}) {
    EXPECT_EQ(Dim::parse(Dim(value).text()), Dim(value));
    const Dim symbolic = Dim(value) * Dim::symbol("B") + Dim(value);
    EXPECT_EQ(Dim::parse(symbolic.text()), symbolic);
  }
}

// Each factor of a product doubles it.
TEST(Dim, AProductOfManySumsIsRefusedBeforeItGrows) {
  Dim product(1);
  try {
    for (int i = 0; i < 64; ++i) product *= Dim::symbol(fmt::format("S{}", i)) + Dim(1);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "a size is a sum of more than 1024 products");
  }
}

}  // namespace
}  // namespace causeway::graph
