#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "support/layers/reference_network.hpp"

namespace cohort::test {

/// A network whose difficulty is its shape: values with several consumers, residual blocks, joins
/// of different memory orders, views, dropout. Samples are 3x6x5, five classes.
struct StructureCase {
    const char* name;
    Value (*describe)(TwinBuilder&);  ///< ends in logits

    [[nodiscard]] Twin make() const;
};
std::ostream& operator<<(std::ostream& out, const StructureCase& c);

[[nodiscard]] std::vector<StructureCase> residual_structures();
[[nodiscard]] std::vector<StructureCase> joint_structures();
[[nodiscard]] std::vector<StructureCase> view_structures();
/// The one of that name. Errors: std::out_of_range.
[[nodiscard]] StructureCase structure(const std::string& name);

}  // namespace cohort::test
