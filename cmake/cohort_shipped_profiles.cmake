# cohort_shipped_profiles(OUT FILE...): a source file that holds the profiles' texts, so that an
# installed program finds them wherever it is.
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
