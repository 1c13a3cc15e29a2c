# Source files that hold files' texts, so that an installed program finds them wherever it is.

# cohort_shipped_text(OUT FOLDER NAME FILE): shipped_NAME_text() of FOLDER/shipped_NAME.hpp.
function(cohort_shipped_text out folder name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include "@folder@/shipped_@name@.hpp"

namespace cohort {

std::string_view shipped_@name@_text() {
    static constexpr std::string_view kText = R"toml(@text@)toml";
    return kText;
}

}  // namespace cohort
]])
endfunction()

# cohort_shipped_texts(OUT FOLDER NAME FILE...): shipped_NAME_texts() of FOLDER/shipped_NAMEs.hpp.
function(cohort_shipped_texts out folder name)
  set(entries "")
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(stem ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND entries "    {\"${stem}\", R\"toml(${text})toml\"},\n")
  endforeach()
  list(LENGTH ARGN count)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include "@folder@/shipped_@name@s.hpp"

#include <array>

namespace cohort {

std::span<const ShippedText> shipped_@name@_texts() {
    static constexpr std::array<ShippedText, @count@> kTexts{{
@entries@    }};
    return kTexts;
}

}  // namespace cohort
]])
endfunction()
