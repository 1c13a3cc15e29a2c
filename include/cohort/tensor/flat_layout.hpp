#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/tensor/shape.hpp"

namespace cohort {

/// One named tensor inside a flat buffer, in canonical row-major order ([O,I,KH,KW], [O,I], ...).
struct FlatRange {
    std::string name;  ///< "stage1.block0.conv1.weight"
    Shape shape;
    std::int64_t offset = 0;  ///< in floats, a multiple of 16 (64 bytes)
    std::int64_t size = 0;    ///< in floats, = shape.elements()
    bool decay = true;        ///< weight decay applies (false: biases, batch norm)
};

/// The table of a flat float buffer: which tensor lies where, and per-range facts. All replicas
/// of a network share one layout whatever their device, so shards may be cut by bytes alone.
class FlatLayout {
public:
    static constexpr std::int64_t kAlignment = 16;  ///< floats

    /// Appends a range at the next aligned offset and returns its index.
    /// Errors: UsageError for a name that is already used.
    int add(std::string name, const Shape& shape, bool decay);

    [[nodiscard]] const std::vector<FlatRange>& ranges() const noexcept { return ranges_; }
    /// Floats in the buffer, padding (always zero) included; a multiple of 16.
    [[nodiscard]] std::int64_t total() const noexcept { return total_; }
    /// Floats without padding.
    [[nodiscard]] std::int64_t elements() const noexcept;
    /// The range of that name, or nullptr.
    [[nodiscard]] const FlatRange* find(std::string_view name) const noexcept;

private:
    std::vector<FlatRange> ranges_;
    std::int64_t total_ = 0;
};

}  // namespace cohort
