#include "cohort/tensor/element.hpp"

namespace cohort {
std::string_view to_text(ElementType type) noexcept {
    switch (type) {
        case ElementType::kBf16: return "bf16";
        case ElementType::kF16: return "f16";
        default: return "f32";
    }
}

}  // namespace cohort
