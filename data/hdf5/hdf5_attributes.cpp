#include "data/hdf5/hdf5_attributes.hpp"

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cohort {

namespace {

struct OpenAttribute {
    Hdf5Handle attribute;
    Hdf5Handle type;
    std::size_t count = 0;
    std::string where;
};

OpenAttribute open_attribute(hid_t object, const std::string& name, std::string_view where) {
    if (!hdf5_has_attribute(object, name, where)) {
        fail<FileError>({.where = where,
                         .what = fmt::format("attribute '{}' is missing", name),
                         .hint = "docs/data.md for what a file must have, or cohort import"});
    }
    OpenAttribute open;
    open.where = fmt::format("{}@{}", where, name);
    open.attribute = hdf5_own(H5Aopen(object, name.c_str(), H5P_DEFAULT), open.where,
                              "cannot open the attribute");
    open.type =
        hdf5_own(H5Aget_type(open.attribute.id()), open.where, "cannot read the attribute's type");
    const Hdf5Handle space = hdf5_own(H5Aget_space(open.attribute.id()), open.where,
                                      "cannot read the attribute's shape");
    open.count = static_cast<std::size_t>(hdf5_check(
        H5Sget_simple_extent_npoints(space.id()), open.where, "cannot read the attribute's shape"));
    return open;
}

void require_attribute(bool holds, const OpenAttribute& open, std::string_view expected) {
    require_file(holds, open.where, "wrong attribute", expected,
                 fmt::format("{} of type {}", open.count, hdf5_type_name(open.type.id())));
}

void read(const OpenAttribute& open, hid_t type, void* values) {
    hdf5_check(H5Aread(open.attribute.id(), type, values), open.where, "cannot read the attribute");
}

}  // namespace

bool hdf5_has_attribute(hid_t object, const std::string& name, std::string_view where) {
    return hdf5_check(H5Aexists(object, name.c_str()), where, "cannot look for an attribute") > 0;
}

template <class T>
T hdf5_read(hid_t object, const std::string& name, std::string_view where) {
    const OpenAttribute open = open_attribute(object, name, where);
    const H5T_class_t kind = H5Tget_class(open.type.id());
    if constexpr (std::same_as<T, std::vector<double>>) {
        require_attribute(kind == H5T_INTEGER || kind == H5T_FLOAT, open, "numbers");
        T values(open.count);
        read(open, H5T_NATIVE_DOUBLE, values.data());
        return values;
    } else if constexpr (std::same_as<T, std::string>) {
        require_attribute(open.count == 1 && kind == H5T_STRING, open, "text");
        if (H5Tis_variable_str(open.type.id()) > 0) {
            char* text = nullptr;
            read(open, open.type.id(), static_cast<void*>(&text));
            T result = text == nullptr ? "" : text;
            static_cast<void>(H5free_memory(text));
            return result;
        }
        T result(H5Tget_size(open.type.id()), '\0');
        read(open, open.type.id(), result.data());
        result.resize(std::min(result.find('\0'), result.size()));
        return result;
    } else {
        constexpr bool kReal = std::same_as<T, double>;
        require_attribute(open.count == 1 && kind == (kReal ? H5T_FLOAT : H5T_INTEGER), open,
                          kReal ? "one real number" : "one integer");
        T value{};
        read(open, hdf5_type<T>(), &value);
        return value;
    }
}

template std::string hdf5_read(hid_t, const std::string&, std::string_view);
template double hdf5_read(hid_t, const std::string&, std::string_view);
template std::int64_t hdf5_read(hid_t, const std::string&, std::string_view);
template std::uint64_t hdf5_read(hid_t, const std::string&, std::string_view);
template std::vector<double> hdf5_read(hid_t, const std::string&, std::string_view);

void hdf5_write_values(hid_t object, const std::string& name, hid_t type, const void* values,
                       hsize_t count, std::string_view where) {
    const std::string place = fmt::format("{}@{}", where, name);
    const Hdf5Handle space =
        count > 0 ? hdf5_space({&count, 1}, where)
                  : hdf5_own(H5Screate(H5S_SCALAR), where, "cannot make a scalar shape");
    if (hdf5_has_attribute(object, name, where)) {
        hdf5_check(H5Adelete(object, name.c_str()), place, "cannot replace the attribute");
    }
    Hdf5Handle attribute =
        hdf5_own(H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                 place, "cannot create the attribute");
    hdf5_check(H5Awrite(attribute.id(), type, values), place, "cannot write the attribute");
    attribute.close(place);
}

void hdf5_write(hid_t object, const std::string& name, std::string_view text,
                std::string_view where) {
    const Hdf5Handle type = hdf5_own(H5Tcopy(H5T_C_S1), where, "cannot make a type");
    // Of fixed length: HDF5 keeps variable-length text without a checksum.
    const std::string terminated(text);
    hdf5_check(H5Tset_size(type.id(), terminated.size() + 1), where, "cannot make a type");
    hdf5_check(H5Tset_cset(type.id(), H5T_CSET_UTF8), where, "cannot make a type");
    hdf5_write_values(object, name, type.id(), terminated.c_str(), 0, where);
}

void hdf5_write(hid_t object, const std::string& name, std::span<const double> values,
                std::string_view where) {
    hdf5_write_values(object, name, H5T_NATIVE_DOUBLE, values.data(), values.size(), where);
}

}  // namespace cohort
