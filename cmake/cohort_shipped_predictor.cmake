# cohort_shipped_predictor(OUT FILE): a source file that holds the predictor's text, so that an
# installed program finds it wherever it is.
function(cohort_shipped_predictor out file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include "shipped_predictor.hpp"

namespace cohort {

std::string_view shipped_predictor_text() {
    static constexpr std::string_view kText = R"toml(@text@)toml";
    return kText;
}

}  // namespace cohort
]])
endfunction()
