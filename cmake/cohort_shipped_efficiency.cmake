# cohort_shipped_efficiency(OUT FILE): a source file that holds the efficiency model's text, so that
# an installed program finds it wherever it is.
function(cohort_shipped_efficiency out file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include "shipped_efficiency.hpp"

namespace cohort {

std::string_view shipped_efficiency_text() {
    static constexpr std::string_view kText = R"toml(@text@)toml";
    return kText;
}

}  // namespace cohort
]])
endfunction()
