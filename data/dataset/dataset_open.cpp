// Every check of a dataset group that can be made before training starts.
#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "core/units.hpp"

#include "data/dataset/dataset_checks.hpp"
#include "data/dataset/dataset_layout.hpp"
#include "data/hdf5/file_io.hpp"
#include "data/hdf5/hdf5_attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cohort {

namespace {

void read_attributes(const Hdf5Handle& file, const std::string& path, SampleSetInfo& info) {
    const std::string format = hdf5_read_text(file.id(), kFormatAttribute, path);
    if (format != kDatasetFormat) {
        fail<FileError>({.where = path + "@" + kFormatAttribute,
                         .what = "not a dataset of this program",
                         .expected = kDatasetFormat,
                         .got = format});
    }
    const std::int64_t version = hdf5_read_integer(file.id(), kVersionAttribute, path);
    if (version != kDatasetVersion) {
        fail<FileError>({.where = path + "@" + kVersionAttribute,
                         .what = "another version of the layout",
                         .expected = std::to_string(kDatasetVersion),
                         .got = std::to_string(version)});
    }
    info.classes = hdf5_read_integer(file.id(), kClassesAttribute, path);
    if (info.classes < 1) {
        fail<FileError>({.where = path + "@" + kClassesAttribute,
                         .what = "unusable number of classes",
                         .expected = "at least 1",
                         .got = std::to_string(info.classes)});
    }
    info.source = hdf5_has_attribute(file.id(), kSourceAttribute, path)
                      ? hdf5_read_text(file.id(), kSourceAttribute, path)
                      : path;
    if (hdf5_has_attribute(file.id(), kChecksumAttribute, path)) {
        info.checksum = hdf5_read_text(file.id(), kChecksumAttribute, path);
    }
}

/// Reads `mean` or `std`: one value for all channels or one per channel.
std::vector<float> read_per_channel(const Hdf5Handle& file, const std::string& path,
                                    const char* name, std::int64_t channels, bool positive) {
    const std::string where = path + "@" + name;
    std::vector<double> values = hdf5_read_numbers(file.id(), name, path);
    if (values.size() != 1 && values.size() != static_cast<std::size_t>(channels)) {
        fail<FileError>(
            {.where = where,
             .what = "wrong number of values",
             .expected = channels == 1 ? "1" : fmt::format("1 or {} (one per channel)", channels),
             .got = std::to_string(values.size())});
    }
    for (const double value : values) {
        const auto single = static_cast<float>(value);
        if (!std::isfinite(single) || (positive && single <= 0)) {
            fail<FileError>({.where = where,
                             .what = "unusable value",
                             .expected = positive ? "a number above 0" : "a finite number",
                             .got = fmt::format("{}", value)});
        }
    }
    values.resize(static_cast<std::size_t>(channels), values.front());
    std::vector<float> result(values.size());
    std::transform(values.begin(), values.end(), result.begin(),
                   [](double value) { return static_cast<float>(value); });
    return result;
}

Hdf5Handle open_existing(const Hdf5Handle& file, const std::string& path, const std::string& name,
                         hid_t access = H5P_DEFAULT) {
    const std::string where = path + ":" + name;
    if (!hdf5_exists(file.id(), name)) {
        fail<FileError>({.where = where,
                         .what = "the data set is missing",
                         .hint = "docs/data.md for what a file must have, or cohort import"});
    }
    H5O_info_t about;
    hdf5_check(H5Oget_info_by_name2(file.id(), name.c_str(), &about, H5O_INFO_BASIC, H5P_DEFAULT),
               where, "cannot read what this is");
    if (about.type != H5O_TYPE_DATASET) {
        fail<FileError>({.where = where,
                         .what = "not a data set",
                         .expected = "a data set",
                         .got = "a group or type"});
    }
    return hdf5_open_dataset(file.id(), name, where, access);
}

/// Whole chunks are read once, so HDF5's chunk cache would only copy them once more.
Hdf5Handle without_chunk_cache(std::string_view where) {
    Hdf5Handle access = hdf5_own(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose, where, "cannot prepare");
    hdf5_check(H5Pset_chunk_cache(access.id(), 0, 0, 1.0), where, "cannot prepare");
    return access;
}

/// Refuses data stored with a filter, a compression for example, that this HDF5 cannot undo.
void check_filters(const Hdf5Handle& dataset, const std::string& where) {
    const Hdf5Handle create =
        hdf5_own(H5Dget_create_plist(dataset.id()), H5Pclose, where, "cannot read the filters");
    const int count = hdf5_check(H5Pget_nfilters(create.id()), where, "cannot read the filters");
    for (int i = 0; i < count; ++i) {
        unsigned flags = 0;
        unsigned config = 0;
        std::size_t values = 0;
        std::array<char, 64> name{};
        const H5Z_filter_t filter =
            hdf5_check(H5Pget_filter2(create.id(), static_cast<unsigned>(i), &flags, &values,
                                      nullptr, name.size() - 1, name.data(), &config),
                       where, "cannot read the filters");
        const bool known = H5Zfilter_avail(filter) > 0;
        static_cast<void>(H5Eclear2(H5E_DEFAULT));
        if (!known) {
            fail<FileError>({.where = where,
                             .what = "the data is stored with a filter that this HDF5 lacks",
                             .expected = "gzip, shuffle or another filter of HDF5's own",
                             .got = fmt::format(
                                 "{} (filter {})",
                                 name.front() == '\0' ? "one without a name" : name.data(), filter),
                             .hint = "compression=\"gzip\""});
        }
    }
}

SampleType read_sample_type(const OpenGroup& open) {
    const Hdf5Handle type =
        hdf5_own(H5Dget_type(open.samples.id()), H5Tclose, open.where, "cannot read the type");
    const std::string name = hdf5_type_name(type.id());
    if (name != "uint8" && name != "float32") {
        fail<FileError>({.where = open.where,
                         .what = "wrong type",
                         .expected = "uint8 or float32",
                         .got = name,
                         .hint = "samples.astype('float32')"});
    }
    return name == "uint8" ? SampleType::kU8 : SampleType::kF32;
}

void read_sample_shape(OpenGroup& open) {
    const std::vector<std::int64_t> shape = hdf5_shape(open.samples.id(), open.where);
    if (shape.size() != 2 && shape.size() != 4) {
        fail<FileError>({.where = open.where,
                         .what = "wrong shape",
                         .expected = "[N,C,H,W] or [N,F]",
                         .got = format_shape(shape),
                         .hint = shape.size() == 3 ? "samples[:, None] for one channel" : ""});
    }
    if (std::count(shape.begin(), shape.end(), 0) > 0) {
        fail<FileError>({.where = open.where,
                         .what = "the set is empty",
                         .expected = "at least one sample",
                         .got = format_shape(shape)});
    }
    open.info.samples = shape.front();
    open.info.sample_shape.assign(shape.begin() + 1, shape.end());
}

[[noreturn]] void fail_truncated(const OpenGroup& open, const std::string& expected,
                                 const std::string& got) {
    fail<FileError>({.where = open.where,
                     .what = "samples are missing: the file is truncated or was not finished",
                     .expected = expected,
                     .got = got});
}

/// Samples per stored chunk; refuses chunks that cut samples and chunks that were never written.
std::int64_t check_chunks(const OpenGroup& open, const Hdf5Handle& create) {
    const SampleSetInfo& info = open.info;
    std::vector<hsize_t> chunk(info.sample_shape.size() + 1);
    hdf5_check(H5Pget_chunk(create.id(), static_cast<int>(chunk.size()), chunk.data()), open.where,
               "cannot read the chunk shape");
    if (!std::equal(chunk.begin() + 1, chunk.end(), info.sample_shape.begin(),
                    [](hsize_t a, std::int64_t b) { return a == static_cast<hsize_t>(b); })) {
        fail<FileError>({.where = open.where,
                         .what = "chunks cut samples",
                         .expected = "chunks of whole samples",
                         .got = format_shape(std::vector<std::int64_t>(chunk.begin(), chunk.end())),
                         .hint = "chunks=(256, *samples.shape[1:])"});
    }
    const auto chunk_samples = static_cast<std::int64_t>(chunk.front());
    const auto expected = static_cast<hsize_t>((info.samples + chunk_samples - 1) / chunk_samples);
    const Hdf5Handle space =
        hdf5_own(H5Dget_space(open.samples.id()), H5Sclose, open.where, "cannot read the shape");
    hsize_t stored = 0;
    hdf5_check(H5Dget_num_chunks(open.samples.id(), space.id(), &stored), open.where,
               "cannot count the chunks (truncated or damaged)");
    if (stored != expected) {
        fail_truncated(open, fmt::format("{} chunks", expected), fmt::format("{}", stored));
    }
    return chunk_samples;
}

void check_contiguous(const OpenGroup& open, const std::string& path) {
    const haddr_t offset = H5Dget_offset(open.samples.id());
    const std::uint64_t needed =
        static_cast<std::uint64_t>(open.info.samples) * open.info.sample_bytes();
    if (offset == HADDR_UNDEF) {
        fail_truncated(open, fmt::format("{} bytes", needed), "none");
    }
    const std::uint64_t length = check_readable(path);
    if (offset > length || needed > length - offset) {
        fail_truncated(open, fmt::format("a file of {} bytes or more", offset + needed),
                       fmt::format("{}", length));
    }
}

/// Sets chunk_samples: as stored, or several stored chunks together when they are very small.
/// Without chunks the default is used.
void check_storage(OpenGroup& open, const std::string& path) {
    const Hdf5Handle create = hdf5_own(H5Dget_create_plist(open.samples.id()), H5Pclose, open.where,
                                       "cannot read the layout");
    const std::int64_t preferred = default_chunk_samples(open.info.sample_bytes());
    std::int64_t stored = preferred;
    switch (H5Pget_layout(create.id())) {
        case H5D_CHUNKED: stored = check_chunks(open, create); break;
        case H5D_CONTIGUOUS:
            if (H5Pget_external_count(create.id()) == 0) {
                check_contiguous(open, path);
                break;
            }
            [[fallthrough]];
        case H5D_VIRTUAL:
            fail<FileError>({.where = open.where,
                             .what = "the samples are in other files",
                             .expected = "a data set stored in this file",
                             .got = "an external or virtual one"});
        default: break;
    }
    constexpr std::int64_t kSmallest = 32;  // below, the cost per read outweighs the reading
    const std::int64_t together =
        std::max<std::int64_t>(1, std::min(preferred, kSmallest) / stored);
    open.info.chunk_samples = std::min(stored * together, open.info.samples);
}

std::vector<std::int32_t> read_labels(const Hdf5Handle& file, const std::string& path,
                                      const std::string& group, const SampleSetInfo& info) {
    const std::string name = "/" + group + "/labels";
    const std::string where = path + ":" + name;
    const Hdf5Handle labels = open_existing(file, path, name);
    check_filters(labels, where);
    const Hdf5Handle type =
        hdf5_own(H5Dget_type(labels.id()), H5Tclose, where, "cannot read the type");
    if (H5Tget_class(type.id()) != H5T_INTEGER) {
        fail<FileError>({.where = where,
                         .what = "wrong type",
                         .expected = "integers",
                         .got = hdf5_type_name(type.id())});
    }
    const std::vector<std::int64_t> shape = hdf5_shape(labels.id(), where);
    if (shape != std::vector{info.samples}) {
        fail<FileError>({.where = where,
                         .what = "wrong shape",
                         .expected = fmt::format("[{}], one label per sample", info.samples),
                         .got = format_shape(shape)});
    }
    std::vector<std::int64_t> wide(static_cast<std::size_t>(info.samples));
    hdf5_check(H5Dread(labels.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, wide.data()),
               where, "cannot read the labels (truncated or damaged)");
    const auto wrong = std::find_if(wide.begin(), wide.end(), [&](std::int64_t label) {
        return label < 0 || label >= info.classes;
    });
    if (wrong != wide.end()) {
        fail<FileError>({.where = where,
                         .what = fmt::format("label {} is out of range", wrong - wide.begin()),
                         .expected = fmt::format("0 to {}", info.classes - 1),
                         .got = fmt::format("{}", *wrong)});
    }
    std::vector<std::int32_t> result(wide.size());
    std::transform(wide.begin(), wide.end(), result.begin(),
                   [](std::int64_t label) { return static_cast<std::int32_t>(label); });
    return result;
}

/// Samples of the train group, whichever group is open; of the open group when there is no train
/// group.
std::int64_t train_samples(const OpenGroup& open) {
    const std::string name = fmt::format("/{}/samples", kTrainGroup);
    const std::string where = open.watch.path() + ":" + name;
    if (!hdf5_exists(open.file.id(), name)) {
        return open.info.samples;
    }
    const auto shape = hdf5_shape(hdf5_open_dataset(open.file.id(), name, where).id(), where);
    return shape.empty() ? 0 : shape.front();
}

}  // namespace

void read_samples(const OpenGroup& open, std::int64_t first, std::int64_t count,
                  std::span<std::byte> into) {
    const std::string what = samples_text(first, count);
    std::vector<hsize_t> extents{static_cast<hsize_t>(count)};
    extents.insert(extents.end(), open.info.sample_shape.begin(), open.info.sample_shape.end());
    std::vector<hsize_t> start(extents.size(), 0);
    start[0] = static_cast<hsize_t>(first);
    const Hdf5Handle in_file =
        hdf5_own(H5Dget_space(open.samples.id()), H5Sclose, open.where, "cannot read the shape");
    hdf5_check(H5Sselect_hyperslab(in_file.id(), H5S_SELECT_SET, start.data(), nullptr,
                                   extents.data(), nullptr),
               open.where, "cannot select samples");
    const Hdf5Handle in_memory =
        hdf5_own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                 H5Sclose, open.where, "cannot select samples");
    try {
        hdf5_check(H5Dread(open.samples.id(), sample_hdf5_type(open.info.type), in_memory.id(),
                           in_file.id(), H5P_DEFAULT, into.data()),
                   open.where, fmt::format("cannot read {} (truncated or damaged)", what));
    } catch (const FileError&) {
        open.watch.check(open.where, what);  // knows the reason
        throw;
    }
    // HDF5 reads zeros beyond the end of a file.
    open.watch.check(open.where, what);
}

OpenGroup open_group(const std::string& path, const std::string& group) {
    OpenGroup open{.watch = FileWatch(path),
                   .file = {},
                   .samples = {},
                   .info = {},
                   .labels = {},
                   .checksums = {},
                   .where = {}};
    open.file = hdf5_open_file(path);
    read_attributes(open.file, path, open.info);
    const std::string name = "/" + group + "/samples";
    open.where = path + ":" + name;
    open.samples = open_existing(open.file, path, name, without_chunk_cache(open.where).id());
    check_filters(open.samples, open.where);
    open.info.type = read_sample_type(open);
    read_sample_shape(open);
    const std::int64_t channels = open.info.sample_shape.front();
    open.info.mean = read_per_channel(open.file, path, kMeanAttribute, channels, false);
    open.info.std = read_per_channel(open.file, path, kStdAttribute, channels, true);
    check_storage(open, path);
    check_classes(open.info.classes, train_samples(open), path + "@" + kClassesAttribute);
    open.labels = read_labels(open.file, path, group, open.info);
    check_contents(open, group);
    return open;
}

}  // namespace cohort
