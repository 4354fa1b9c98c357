"""What variants of a frozen part lose and gain: MobileNetV2 on CIFAR-100, behind one exact head."""
