// The out-of-line half of fmt 9, which the distribution ships as a shared library only. The instantiations are those
// that fmt's headers declare or call without defining.

#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API auto dragonbox::to_decimal(float value) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double value) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API locale_ref::locale_ref(const std::locale& locale);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto thousands_sep_impl<char>(locale_ref locale) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref locale) -> char;

}  // namespace detail
FMT_END_NAMESPACE
