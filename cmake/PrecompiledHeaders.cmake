# Headers of the standard library and of packages that most sources include are parsed once for a target, which takes a
# third off the time of a build. A source still includes what it uses: builds with sanitizers go without
# (-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_UNITY_BUILD=OFF), and fail where it does not.

# More headers may follow the target.
function(causeway_precompile_headers target)
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <cstddef> <cstdint> <cstring> <filesystem>
    <functional> <map> <memory> <optional> <set> <span> <string> <string_view> <utility> <vector> <fmt/format.h>
    <nlohmann/json.hpp> ${ARGN})
endfunction()
