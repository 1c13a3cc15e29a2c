#include "tuning.hpp"

namespace cohort {

std::shared_ptr<TuningCache> make_tuning_cache() {
    return std::make_shared<TuningCache>();
}

}  // namespace cohort
