# Source files that hold files' texts, so that an installed program finds them wherever it is.

# cohort_shipped_text(OUT NAME FILE): shipped_NAME_text() of shipped_NAME.hpp.
function(cohort_shipped_text out name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include "shipped_@name@.hpp"

namespace cohort {

std::string_view shipped_@name@_text() {
    static constexpr std::string_view kText = R"toml(@text@)toml";
    return kText;
}

}  // namespace cohort
]])
endfunction()

# cohort_shipped_profiles(OUT FILE...): shipped_profile_texts() of shipped_profiles.hpp.
function(cohort_shipped_profiles out)
  set(entries "")
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND entries "    {\"${name}\", R\"toml(${text})toml\"},\n")
  endforeach()
  list(LENGTH ARGN count)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include "shipped_profiles.hpp"

#include <array>

namespace cohort {

std::span<const ShippedProfile> shipped_profile_texts() {
    static constexpr std::array<ShippedProfile, @count@> kProfiles{{
@entries@    }};
    return kProfiles;
}

}  // namespace cohort
]])
endfunction()
