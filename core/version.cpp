#include "cohort/core/version.hpp"

#include "cohort_revision.hpp"

namespace cohort {

std::string_view version() noexcept {
    return COHORT_VERSION;
}
std::string_view revision() noexcept {
    return COHORT_REVISION;
}
std::string_view build_type() noexcept {
    return COHORT_BUILD_TYPE;
}
std::string_view compiler() noexcept {
    return COHORT_COMPILER;
}

}  // namespace cohort
