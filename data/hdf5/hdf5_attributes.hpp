#pragma once

#include "data/hdf5/hdf5_handle.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// Attributes of the object `object`; `where` names file and object in errors. Readers throw
/// FileError when the attribute is missing or has another type, naming it.
[[nodiscard]] bool hdf5_has_attribute(hid_t object, const std::string& name,
                                      std::string_view where);
/// Text of fixed or variable length (h5py writes the latter).
[[nodiscard]] std::string hdf5_read_text(hid_t object, const std::string& name,
                                         std::string_view where);
/// One integer of any width.
[[nodiscard]] std::int64_t hdf5_read_integer(hid_t object, const std::string& name,
                                             std::string_view where);
/// One unsigned integer of any width.
[[nodiscard]] std::uint64_t hdf5_read_unsigned(hid_t object, const std::string& name,
                                               std::string_view where);
/// One floating-point number.
[[nodiscard]] double hdf5_read_number(hid_t object, const std::string& name,
                                      std::string_view where);
/// One number or a list of numbers, of any numeric type.
[[nodiscard]] std::vector<double> hdf5_read_numbers(hid_t object, const std::string& name,
                                                    std::string_view where);

void hdf5_write_text(hid_t object, const std::string& name, std::string_view text,
                     std::string_view where);
void hdf5_write_integer(hid_t object, const std::string& name, std::int64_t value,
                        std::string_view where);
void hdf5_write_unsigned(hid_t object, const std::string& name, std::uint64_t value,
                         std::string_view where);
void hdf5_write_number(hid_t object, const std::string& name, double value, std::string_view where);
/// A list of doubles [values.size()].
void hdf5_write_numbers(hid_t object, const std::string& name, std::span<const double> values,
                        std::string_view where);

}  // namespace cohort
