"""The error tree of learning, which stands alone because learning knows no messages.

LearningError          everything this package raises on purpose
├── SampleError        a sample cannot be read
│   ├── ImageError     a picture cannot be read
│   ├── TextError      a text cannot be read
│   ├── ArrayError     an array of numbers cannot be read
│   └── NotFiniteError a model gives NaN or infinity for a sample
├── RangeError         a number leaves the range in which arithmetic was proven exact
├── FeatureError       features have another shape or kind than the calculation needs
├── MomentsError       no samples have the moments that were told
├── SingularError      a system of equations has no stable solution
├── NetworkError       a network is unknown, or its tensors have other names or shapes
├── GraphFileError     a file of a graph of tensors breaks a rule, or is none
├── GraphGrowthError   a graph of tensors makes more than fits, or its size is bounded by nothing
├── PrivacyError       noise or a budget cannot be had as it is asked for
└── TrainingError      local work cannot be trained as it is described
"""


class LearningError(Exception):
    """Base of this package's errors; names what is wrong, the value and the way out."""


class SampleError(LearningError):
    """A sample cannot be turned into the input of a model, or the model has no answer to it."""


class ImageError(SampleError):
    """A picture cannot be read: too large, torn, of an unknown format or depth."""


class TextError(SampleError):
    """A text cannot be read: too large, empty, not UTF-8, or with tokens that nobody knows."""


class ArrayError(SampleError):
    """An array cannot be read: no plain numbers, too large, of another shape, NaN or infinity."""


class NotFiniteError(SampleError):
    """A sample can be read, and a model gives NaN or infinity for it."""


class RangeError(LearningError):
    """A number leaves the range in which arithmetic was proven exact; nothing is clipped."""


class FeatureError(LearningError):
    """Features have another shape or kind than the calculation needs, or are not finite."""


class MomentsError(LearningError):
    """No samples have the moments that were told: a Gram matrix, sums and counts of classes."""


class SingularError(LearningError):
    """A system of equations has no stable solution."""


class NetworkError(LearningError):
    """A network is unknown, or tensors given for it have other names or shapes."""


class GraphFileError(LearningError):
    """A file of a graph of tensors breaks a rule for what may be loaded; nothing of it was."""


class GraphGrowthError(LearningError):
    """A graph of tensors makes more numbers than fit, or as many as its input likes."""


class PrivacyError(LearningError):
    """Noise or a budget cannot be had as it is asked for, or its library is not installed."""


class TrainingError(LearningError):
    """Local work cannot be trained as it is described: sizes, settings or parts disagree."""
